package fleetmessage

import (
	"reflect"
	"time"

	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/pkg/api"
)

// Name is a namespace and a name.
type Name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Member identifies a cluster of a fleet.
type Member struct {
	// Name is the name of its FleetMember.
	Name string `json:"name"`
	// UID is the UID of its namespace kube-system.
	UID string `json:"uid"`
}

// Order is what the hub says to one cluster about one Rollout.
type Order struct {
	// Hub is the UID of the namespace kube-system of the hub's cluster.
	Hub string `json:"hub"`
	// FleetRollout governs the Rollout, and UID is its UID.
	FleetRollout api.FleetReference `json:"fleetRollout"`
	UID          string             `json:"uid"`
	// Member is the cluster that the order is for.
	Member Member `json:"member"`
	// Rollout is the Rollout in that cluster.
	Rollout Name `json:"rollout"`
	// Permit is nil for a FleetRollout that was deleted. Its clusters then hold.
	Permit *api.FleetPermit `json:"permit,omitempty"`
	// Blocked are the versions that the hub has withdrawn or unblocked.
	Blocked []api.FleetBlock `json:"blocked,omitempty"`
	// Deleted is the epoch in which the FleetRollout was deleted, which is later than those of its permits; 0 for one that exists.
	Deleted int64 `json:"deleted,omitempty"`
}

// Answer is what a cluster says about one Rollout.
type Answer struct {
	Member Member `json:"member"`
	// Rollout is the Rollout, and FleetRollout the one that its spec names.
	Rollout      Name               `json:"rollout"`
	FleetRollout api.FleetReference `json:"fleetRollout"`
	// Report is what the cluster does.
	Report api.FleetReport `json:"report"`
	// Sent orders the answers of the cluster about this Rollout: the time in microseconds, and at least one more than in the last answer of its subject.
	Sent int64 `json:"sent"`
	// Time is when the cluster sent it, by its own clock.
	Time time.Time `json:"time"`
	// Version is the version of Sluice in the cluster.
	Version string `json:"version,omitempty"`
}

// SaysSame reports whether two answers say the same, whenever they were sent. The other one may be nil.
func (a Answer) SaysSame(other *Answer) bool {
	return other != nil && a.FleetRollout == other.FleetRollout && reflect.DeepEqual(a.Report, other.Report)
}

// Gone reports whether the cluster has no governed Rollout of that name.
func (a Answer) Gone() bool {
	return a.Report.State == api.FleetReportAbsent || a.Report.State == api.FleetReportUngoverned
}

// Beat is a heartbeat of a cluster.
type Beat struct {
	Member Member `json:"member"`
	// Time is when the cluster sent it, by its own clock.
	Time time.Time `json:"time"`
	// Process is the process of the cluster that sent it, and Number orders the heartbeats of that process. Time does not: processes have clocks of their own,
	// and a clock may be set back.
	Process string `json:"process"`
	Number  int64  `json:"number"`
	// Version is the version of Sluice in the cluster.
	Version string `json:"version,omitempty"`
	// Enforcement says what holds changes in the cluster.
	Enforcement api.FleetEnforcement `json:"enforcement"`
	// HubKeys are the public keys of the hub that the cluster trusts.
	HubKeys []string `json:"hubKeys,omitempty"`
	// Refused is why the cluster refuses the last order about one of its Rollouts, "" if it refuses none.
	Refused string `json:"refused,omitempty"`
}

// MaxBeatAge is how old a heartbeat may be. Clocks of clusters may be some minutes apart.
const MaxBeatAge = 10 * time.Minute

// Seal signs a heartbeat by the key of the member.
func (b Beat) Seal(member nkeys.KeyPair) ([]byte, error) { return seal(purposeBeat, member, b) }

// OpenBeat checks a heartbeat that arrived now. last has the number of the last one of each process of the cluster. A heartbeat of another cluster of this name
// is returned together with a refusal for [ReasonNameTaken]. The error is a [Refusal].
func (e Expected) OpenBeat(message []byte, last map[string]int64, now time.Time) (Beat, error) {
	var b Beat
	if _, err := open(purposeBeat, e.Keys, message, &b); err != nil {
		return Beat{}, err
	}
	switch {
	case b.Member.Name != e.Member.Name:
		return Beat{}, refuse(ReasonWrongCluster, "it comes from the cluster %.60q, and not from %s", b.Member.Name, e.Member.Name)
	case b.Member.UID == "":
		return Beat{}, refuse(ReasonMalformed, "it names no cluster")
	case now.Sub(b.Time) > MaxBeatAge || b.Time.Sub(now) > MaxBeatAge:
		return Beat{}, refuse(ReasonClock, "the clock of the cluster says %s, and the hub's %s: set them right", b.Time.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case e.Member.UID != "" && b.Member.UID != e.Member.UID:
		return b, refuse(ReasonNameTaken, "it comes from another cluster that calls itself %s", e.Member.Name)
	case b.Number <= last[b.Process]:
		return Beat{}, refuse(ReasonOld, "it was sent before the last one")
	}
	return b, nil
}

// Seal signs an order by the key of the hub.
func (o Order) Seal(hub nkeys.KeyPair) ([]byte, error) { return seal(purposeOrder, hub, o) }

// Seal signs an answer by the key of the member.
func (a Answer) Seal(member nkeys.KeyPair) ([]byte, error) { return seal(purposeAnswer, member, a) }

// Receiver is a cluster that receives orders.
type Receiver struct {
	Member Member
	// Hub is the hub's UID. "" accepts the first one: a cluster that joins does not know it yet.
	Hub string
	// Keys are the public keys of the hub: one, or two while the hub changes its key.
	Keys []string
}

// OpenOrder checks an order about a Rollout that a FleetRollout governs. last is the last permit that the cluster has taken in, nil for none. The
// error is a [Refusal].
func (r Receiver) OpenOrder(message []byte, rollout Name, governedBy api.FleetReference, last *api.FleetPermit) (Order, error) {
	o, _, err := ReadOrder(message, r.Keys)
	switch {
	case err != nil:
	case o.Hub == "" || o.UID == "":
		err = refuse(ReasonMalformed, "it names no hub or no FleetRollout")
	case r.Hub != "" && o.Hub != r.Hub:
		err = refuse(ReasonWrongHub, "it comes from the hub %.60q, and this cluster belongs to the hub %s", o.Hub, r.Hub)
	case o.Member.Name != r.Member.Name:
		err = refuse(ReasonWrongCluster, "it is for the cluster %.60q, and this is %s", o.Member.Name, r.Member.Name)
	case o.Member.UID != r.Member.UID:
		err = refuse(ReasonNameTaken, "it is for another cluster that has joined the fleet as %s", r.Member.Name)
	case o.Rollout != rollout:
		err = refuse(ReasonWrongRollout, "it is about the Rollout %.120q", o.Rollout)
	case o.FleetRollout != governedBy:
		err = refuse(ReasonNotYours, "it comes from FleetRollout %.120q, and spec.fleet names %s", o.FleetRollout, governedBy)
	case o.Permit == nil && o.Deleted == 0:
		err = refuse(ReasonMalformed, "it has no permit")
	case o.Permit == nil && last != nil && o.Deleted <= last.Epoch:
		err = refuse(ReasonOld, "its FleetRollout was deleted in epoch %d, and the last permit is of epoch %d", o.Deleted, last.Epoch)
	case o.Permit != nil && last != nil && o.Permit.Number().Before(last.Number()):
		err = refuse(ReasonOld, "its permit %d of epoch %d is older than the last one, %d of epoch %d", o.Permit.Seq, o.Permit.Epoch, last.Seq, last.Epoch)
	}
	if err != nil {
		return Order{}, err
	}
	return o, nil
}

// ReadOrder checks the signature of an order by one of the keys, and returns the public key that has signed it.
func ReadOrder(message []byte, keys []string) (o Order, signer string, err error) {
	if signer, err = open(purposeOrder, keys, message, &o); err != nil {
		return Order{}, "", err
	}
	return o, signer, nil
}

// Expected is the cluster whose answers the hub opens.
type Expected struct {
	Member Member
	// Keys are the public keys of the member: one, or two while it changes its key.
	Keys []string
}

// ReadAnswer checks the signature of an answer, and that it comes from this cluster.
func (e Expected) ReadAnswer(message []byte) (Answer, error) {
	var a Answer
	if _, err := open(purposeAnswer, e.Keys, message, &a); err != nil {
		return Answer{}, err
	}
	if a.Member.Name != e.Member.Name {
		return Answer{}, refuse(ReasonWrongCluster, "it comes from the cluster %.60q, and not from %s", a.Member.Name, e.Member.Name)
	}
	return a, nil
}

// OpenAnswer checks an answer about a Rollout that a FleetRollout governs. last is Sent of the last answer, 0 for none. The error is a [Refusal].
func (e Expected) OpenAnswer(message []byte, rollout Name, governs api.FleetReference, last int64) (Answer, error) {
	a, err := e.ReadAnswer(message)
	switch {
	case err != nil:
	case a.Member.UID == "" || e.Member.UID != "" && a.Member.UID != e.Member.UID:
		err = refuse(ReasonNameTaken, "it comes from another cluster that calls itself %s", e.Member.Name)
	case a.Rollout != rollout:
		err = refuse(ReasonWrongRollout, "it is about the Rollout %.120q", a.Rollout)
	case a.FleetRollout != governs && !a.Gone():
		err = refuse(ReasonNotYours, "it is about FleetRollout %.120q", a.FleetRollout)
	case a.Sent < last:
		err = refuse(ReasonOld, "it was sent before the last one")
	}
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

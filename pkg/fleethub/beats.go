package fleethub

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

const (
	// membersEvery is how often the hub looks for members that have fallen silent.
	membersEvery = 2 * time.Second
	// seenEvery is how old status.lastSeen of a member that the hub hears may become.
	seenEvery = time.Minute
)

// beat is what the last heartbeat of a cluster says.
type beat struct {
	// of is the UID of the FleetMember. Heartbeats do not count for another one of the name: a cluster that was built again joins by one.
	of types.UID
	// heard is when it arrived, by the clock of the hub; zero if this process has heard none.
	heard time.Time
	// silentFrom and heardFrom are the ends of the last silence; see [fleet.Member].
	silentFrom, heardFrom time.Time
	// senders are the processes of the cluster that were heard a short time ago, by their names.
	senders     map[string]sender
	uid         string
	version     string
	enforcement api.FleetEnforcement
	hubKeys     []string
	refused     string
	// otherHeard is when another cluster of this name was heard.
	otherHeard time.Time
	// refusal is why the last refused heartbeat counted for nothing, and refusedAt is when it came.
	refusal   string
	refusedAt time.Time
}

// sender is a process of a cluster that sends heartbeats.
type sender struct {
	// number and heard are those of its last heartbeat, and ahead is how far its clock was ahead of the hub's.
	number int64
	heard  time.Time
	ahead  time.Duration
}

// rememberSender is how long a heartbeat may count, by each clock. Until then, the hub refuses to take it a second time.
const rememberSender = 2 * fleetmessage.MaxBeatAge

// numbers returns the number of the last heartbeat of each process.
func (b beat) numbers() map[string]int64 {
	list := map[string]int64{}
	for name, s := range b.senders {
		list[name] = s.number
	}
	return list
}

// clockSkew returns how far the clock of the cluster is ahead: that of the process whose clock is furthest apart.
func (b beat) clockSkew() time.Duration {
	var most time.Duration
	for _, s := range b.senders {
		if b.heard.Sub(s.heard) < fleet.UnreachableAfter && s.ahead.Abs() > most.Abs() {
			most = s.ahead
		}
	}
	return most
}

// sendersAfter returns the processes of the cluster after a heartbeat.
func (b beat) sendersAfter(said fleetmessage.Beat, now time.Time) map[string]sender {
	next := map[string]sender{said.Process: {said.Number, now, said.Time.Sub(now)}}
	for name, s := range b.senders {
		if name != said.Process && now.Sub(s.heard) < rememberSender {
			next[name] = s
		}
	}
	return next
}

// silenceBefore returns the ends of the last silence of a member of which a heartbeat arrives now. Other executors of the hub may have heard it since the time in its status, until
// they would have written a newer one.
func (b beat) silenceBefore(now time.Time, written *metav1.Time) (from, to time.Time) {
	last, limit := b.heard, fleet.UnreachableAfter
	if written != nil && written.After(last) {
		last, limit = written.Time, seenEvery+fleet.UnreachableAfter
	}
	if last.IsZero() || now.Sub(last) < limit {
		return b.silentFrom, b.heardFrom
	}
	return last, now
}

// taken reports whether another cluster uses the name.
func (b beat) taken(now time.Time) bool {
	return !b.otherHeard.IsZero() && now.Sub(b.otherHeard) < fleet.UnreachableAfter
}

// beats are the last heartbeats of all clusters.
type beats struct {
	hub *Hub
	// changed wakes watch.
	changed chan struct{}

	mu    sync.Mutex
	known map[string]beat
}

func newBeats(h *Hub) *beats {
	return &beats{hub: h, changed: make(chan struct{}, 1), known: map[string]beat{}}
}

// of returns the last heartbeat of a member. What this process has not heard yet comes from the status that another one has written.
func (b *beats) of(m *api.FleetMember) beat {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.lastOf(m)
	if last.heard.IsZero() {
		last.uid, last.version, last.enforcement, last.hubKeys = m.Status.UID, m.Status.Version, m.Status.Enforcement, m.Status.HubKeys
	}
	return last
}

// lastOf returns the last heartbeat of a member that this process has heard. b.mu is held.
func (b *beats) lastOf(m *api.FleetMember) beat {
	if last, heard := b.known[m.Name]; heard && last.of == m.UID {
		return last
	}
	return beat{of: m.UID}
}

// receive takes a heartbeat.
func (b *beats) receive(subject string, message []byte) {
	name, ok := fleetmessage.ParseBeatSubject(subject)
	if !ok {
		return
	}
	m, known := b.hub.kube.FleetMember(name)
	if !known || m == nil {
		return // a cluster that nobody has joined, or the watches have still to begin
	}
	now := b.hub.Clock()
	b.mu.Lock()
	last := b.lastOf(m)
	b.mu.Unlock()
	expected := fleetmessage.Expected{Member: fleetmessage.Member{Name: name, UID: m.Status.UID}, Keys: memberKeys(m)}
	said, err := expected.OpenBeat(message, last.numbers(), now)
	var refusal *fleetmessage.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == fleetmessage.ReasonNameTaken:
		b.mu.Lock()
		last.otherHeard = now
		b.known[name] = last
		b.mu.Unlock()
		b.hub.noteRefusal("heartbeat", name, err)
		b.hub.hintAll()
		return
	case err != nil:
		last.refusal, last.refusedAt = err.Error(), now
		b.mu.Lock()
		b.known[name] = last
		b.mu.Unlock()
		b.hub.noteRefusal("heartbeat", name, err)
		return
	}
	next := beat{
		of: m.UID, heard: now, senders: last.sendersAfter(said, now), uid: said.Member.UID, version: said.Version, enforcement: said.Enforcement, hubKeys: said.HubKeys, refused: said.Refused, otherHeard: last.otherHeard,
	}
	next.silentFrom, next.heardFrom = last.silenceBefore(now, m.Status.LastSeen)
	b.mu.Lock()
	b.known[name] = next
	b.mu.Unlock()
	if now.Sub(last.heard) >= fleet.UnreachableAfter || last.enforcement != next.enforcement || !slices.Equal(last.hubKeys, next.hubKeys) {
		b.hub.hintAll()
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// watch writes what the hub knows of the members into their status, until ctx is done.
func (b *beats) watch(ctx context.Context) {
	tick := time.NewTicker(membersEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
		case <-tick.C:
		}
		for _, m := range b.hub.kube.FleetMembers() {
			b.writeStatus(ctx, m)
		}
	}
}

// writeStatus writes the status of a member if it says something new.
func (b *beats) writeStatus(ctx context.Context, m *api.FleetMember) {
	if current, known := b.hub.kube.FleetMember(m.Name); known && current != nil {
		m = current
	}
	next, hint := b.statusOf(m)
	if equality.Semantic.DeepEqual(next, m.Status) {
		return
	}
	err := b.hub.kube.WriteFleetMemberStatus(ctx, m, next)
	switch {
	case err == nil && hint:
		b.hub.hintAll()
	case err != nil && ctx.Err() == nil && !apiclient.IsConflict(err) && !apiclient.IsNotFound(err):
		b.hub.Logger.Warn("cannot write the status of a member", "member", m.Name, "error", err)
	}
}

// statusOf returns what the status of a member should say. hint: FleetRollouts must look at it.
func (b *beats) statusOf(m *api.FleetMember) (next api.FleetMemberStatus, hint bool) {
	now, last := b.hub.Clock(), b.of(m)
	next = *m.Status.DeepCopy()
	heard := !last.heard.IsZero() && now.Sub(last.heard) < fleet.UnreachableAfter
	switch {
	case last.taken(now):
		next.Phase = api.FleetMemberNameTaken
		next.Message = "Another cluster sends messages under this name by the same key; stop it, and give it a key and a name of its own: sluice fleet join"
	case heard:
		next.Phase, next.Message = api.FleetMemberReady, ""
		switch {
		case last.refused != "":
			next.Message = "The cluster refuses an order: " + last.refused
		case last.enforcement == api.FleetEnforcementNone:
			next.Message = "Nothing holds changes in the cluster, so it gets no permit; install the policies there, for the namespace of its executors: sluice install --print --namespace NAMESPACE --part policies | kubectl apply --server-side -f -"
		}
	case !last.heard.IsZero() || now.Sub(b.hub.started) >= fleet.UnreachableAfter:
		if next.LastSeen != nil && now.Sub(next.LastSeen.Time) < seenEvery && last.heard.IsZero() {
			break // another executor hears it
		}
		next.Phase = api.FleetMemberUnreachable
		next.Message = "The hub does not hear the cluster; see that its executors run with --fleet-member=" + m.Name + " and reach the hub's NATS"
		if last.refusal != "" && now.Sub(last.refusedAt) < fleet.UnreachableAfter {
			next.Message = "The hub refuses the heartbeats of the cluster: " + last.refusal
		}
	}
	if heard {
		next.UID, next.Version, next.Enforcement, next.HubKeys = last.uid, last.version, last.enforcement, last.hubKeys
		if skew := last.clockSkew().Round(time.Second); next.ClockSkew == nil || (next.ClockSkew.Duration-skew).Abs() > time.Second {
			next.ClockSkew = &metav1.Duration{Duration: skew}
		}
		if next.LastSeen == nil || last.heard.Sub(next.LastSeen.Time) >= seenEvery || m.Status.Phase != next.Phase {
			next.LastSeen = &metav1.Time{Time: last.heard.Truncate(time.Second)}
		}
	}
	return next, m.Status.Phase != next.Phase || m.Status.UID != next.UID
}

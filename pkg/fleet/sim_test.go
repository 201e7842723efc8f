package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

// world is a fleet: a hub with its API server and two executors, and clusters. A clone is a snapshot. Versions are 1 to 3; 1 is stable everywhere in
// the beginning.
type world struct {
	model *model
	now   int // seconds since start

	release int8 // spec.release; 0 for none
	paused  bool
	status  api.FleetRolloutStatus
	rv      int
	targets map[string]Target
	reports map[string]api.FleetReport // received from the members
	down    map[string]api.FleetPermit // the last message to each member

	members   []memberWorld
	executors [2]executorWorld

	backup *backup // of the hub's API server, nil for none

	budget int // acts of users and faults that are left
	// ghosts
	completed []int64 // the epoch of the permit of the last completion of a member
	withdrawn int8    // the version that the hub calls withdrawn, 0 for none
}

// backup is an earlier state of the hub's API server.
type backup struct {
	status  api.FleetRolloutStatus
	targets map[string]Target
}

// memberWorld is a cluster with one governed Rollout. Its gate is the one of the design: a permit is used up by one release of the template that
// it names.
type memberWorld struct {
	cut              bool
	silence          [2]int // the last time in which it was cut off for long, from and to; zero for none
	cutSince         int
	template, stable int8
	good             int8 // the version to go back to
	state            api.FleetReportState
	reason           string
	back             bool // on the way back from a release
	permit           api.FleetPermit
	blocked          int8
	blockedEpoch     int64
	unhealthy        bool
	healthy          int  // ghost: for how many seconds its pods were ready since it stopped at a hold or completed, at most an hour
	gone             bool // it is no member, or no longer
	absent           bool // it has no Rollout
	cordoned         bool
	uid              int8 // of its Rollout
	overridden       bool // a user lets the release of the template go on without permits
	undelivered      bool // it has still to set the images of its permit
}

// goesWithoutPermit reports whether an overridden release has still to complete. Its report may answer an order to go back that came before.
func (m *memberWorld) goesWithoutPermit() bool {
	return m.overridden && !m.back && m.stable != m.template
}

// executorWorld is an executor of the hub: the writes that it has still to make, and what its cache showed when it was refreshed last.
type executorWorld struct {
	writes []write
	stale  bool
	status api.FleetRolloutStatus
	rv     int
	cached map[string]Target
}

// write is a write to the API server, or a message.
type write struct {
	status  *api.FleetRolloutStatus
	rv      int // the resourceVersion that the status is based on
	cluster string
	target  *Target
	// others are FleetTargets whose permits do not change. Their order does not matter, so they are one move, and so are published permits.
	others    map[string]Target
	published map[string]api.FleetPermit
}

func (w write) String() string {
	switch {
	case w.status != nil && w.status.Grant != nil:
		return fmt.Sprintf("commit epoch %d, grant %d %s to %v", w.status.Epoch, w.status.Grant.Seq, w.status.Grant.Verb, w.status.Grant.Clusters)
	case w.status != nil:
		return fmt.Sprintf("commit epoch %d", w.status.Epoch)
	case w.published != nil:
		return fmt.Sprintf("publish %d permits", len(w.published))
	case w.others != nil:
		return fmt.Sprintf("write the status of %d targets", len(w.others))
	}
	return fmt.Sprintf("write %d/%d %s of %s", w.target.Permit.Epoch, w.target.Permit.Seq, w.target.Permit.Verb, w.cluster)
}

// model is the constant part of one exploration.
type model struct {
	name     string
	members  int
	spec     Spec
	acts     int
	fails    bool // releases fail by metrics
	third    bool // users release version 3
	stale    bool // the second executor plans by a late cache
	crashes  bool
	cuts     bool // members are cut off, and come back
	ails     bool // pods of clusters become unready, and ready again
	rests    bool // clusters are cordoned, and their Rollouts are deleted and created again
	override bool // users of clusters let releases go on without permits
	backups  bool // the hub is restored from a backup
	patches  bool // the clusters set the images
	joins    bool // the last cluster joins in the middle of a release
	user     []api.FleetCommandAction
	check    *checks
}

// start is before 1970, so that an epoch is the one before plus 1.
var start = time.Unix(-1_000_000, 0).UTC()

func (w *world) time() time.Time { return start.Add(time.Duration(w.now) * time.Second) }

func memberName(i int) string { return fmt.Sprintf("c%d", i) }

func memberIndex(name string) int {
	i, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(err)
	}
	return i
}

func newWorld(m *model) world {
	w := world{model: m, release: 2, targets: map[string]Target{}, reports: map[string]api.FleetReport{}, down: map[string]api.FleetPermit{}, budget: m.acts}
	w.members, w.completed = make([]memberWorld, m.members), make([]int64, m.members)
	for i := range m.members {
		w.members[i] = memberWorld{template: 1, stable: 1, good: 1, state: api.FleetReportIdle}
		w.reports[memberName(i)] = w.report(i)
	}
	if m.joins {
		w.members[m.members-1].gone = true
		delete(w.reports, memberName(m.members-1))
	}
	return w
}

// clone copies the maps, which a move may change.
func (w world) clone() world {
	w.targets, w.reports, w.down = maps.Clone(w.targets), maps.Clone(w.reports), maps.Clone(w.down)
	w.members, w.completed = slices.Clone(w.members), slices.Clone(w.completed)
	for i := range w.executors {
		w.executors[i].writes = slices.Clone(w.executors[i].writes)
	}
	return w
}

func versionName(v int8) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("v%d", v)
}

// imagesOf returns the images of a version.
func imagesOf(v int8) map[string]string {
	return map[string]string{"app": "app:" + versionName(v)}
}

func keyOf(v int8) string { return api.FleetRelease{Version: versionName(v)}.Key() }

func versionOfKey(key string) int8 {
	if key == "" {
		return 0
	}
	return int8(key[len(key)-1] - '0')
}

func (w *world) report(i int) api.FleetReport {
	m := w.members[i]
	if m.absent {
		return api.FleetReport{State: api.FleetReportAbsent}
	}
	r := api.FleetReport{
		RolloutUID: types.UID(fmt.Sprintf("u%d", m.uid)), Epoch: m.permit.Epoch, Seq: m.permit.Seq, State: m.state, Reason: m.reason, CanGoBack: true, Unhealthy: m.unhealthy,
		Template: api.FleetVersion{Version: versionName(m.template), Revision: fmt.Sprintf("h%d", m.template)},
		Stable:   api.FleetVersion{Version: versionName(m.stable), Revision: fmt.Sprintf("h%d", m.stable)},
	}
	if w.model.patches {
		r.Template.Images, r.Stable.Images = api.FleetImagesDigest(imagesOf(m.template)), api.FleetImagesDigest(imagesOf(m.stable))
	}
	if m.overridden {
		r.Overridden = "kim: the hub is lost"
	}
	if m.blocked != 0 {
		r.Blocked = []api.FleetBlock{{Version: keyOf(m.blocked), Epoch: m.blockedEpoch}}
	}
	return r
}

// see returns what an executor observes, by its cache or live.
func (w *world) see(e int) Seen {
	x := w.executors[e]
	s := Seen{
		Namespace: "shop", Name: "checkout", UID: "u", Paused: w.paused, Delivery: DeliveryExternal, Release: api.FleetRelease{Version: versionName(w.release)},
		Spec: w.model.spec, Status: w.status, Targets: w.targets, Reports: w.reports, Members: map[string]Member{}, Started: start.Add(-time.Hour),
	}
	if w.model.patches {
		s.Delivery, s.Release.Images = DeliveryPatch, imagesOf(w.release)
	}
	if x.stale {
		s.Status, s.Targets = x.status, x.cached
	}
	for i := range w.model.members {
		if m := w.members[i]; !m.gone {
			seen := w.time()
			if m.cut {
				seen = start.Add(time.Duration(m.cutSince) * time.Second)
			}
			member := Member{LastSeen: seen, Cordoned: m.cordoned}
			if m.silence[1] > 0 {
				member.SilentFrom, member.HeardFrom = start.Add(time.Duration(m.silence[0])*time.Second), start.Add(time.Duration(m.silence[1])*time.Second)
			}
			s.Members[memberName(i)] = member
		}
	}
	return s
}

// plan lets an executor plan. It reports whether there is anything to write.
func (w *world) plan(e int) bool {
	seen := w.see(e)
	d := Plan(seen, w.time())
	x := &w.executors[e]
	base := w.rv
	if x.stale {
		base = x.rv
	}
	x.writes = nil
	if !sameStatus(d.Status, seen.Status) {
		x.writes = append(x.writes, write{status: &d.Status, rv: base})
	}
	others, published := map[string]Target{}, map[string]api.FleetPermit{}
	for _, name := range slices.Sorted(maps.Keys(d.Targets)) {
		t := d.Targets[name]
		if before, is := seen.Targets[name]; is && permitKept(before.Permit, t.Permit) {
			others[name] = t
			continue
		}
		x.writes = append(x.writes, write{cluster: name, target: &t})
	}
	for name, t := range seen.Targets {
		if samePermit(w.down[name], t.Permit) == 0 {
			published[name] = t.Permit
		}
	}
	if len(others) > 0 {
		x.writes = append(x.writes, write{others: others})
	}
	if len(published) > 0 {
		x.writes = append(x.writes, write{published: published})
	}
	w.model.check.planned(w, seen, d)
	return len(x.writes) > 0
}

// sameStatus compares what counts: the outbox of transitions is for readers.
func sameStatus(a, b api.FleetRolloutStatus) bool {
	a.Transitions, b.Transitions, a.TransitionSeq, b.TransitionSeq = nil, nil, 0, 0
	return equality.Semantic.DeepEqual(a, b)
}

// samePermit is 1 if the message has the permit or a newer one, 0 if not.
func samePermit(message, permit api.FleetPermit) int {
	if message.Epoch > permit.Epoch || message.Epoch == permit.Epoch && message.Seq > permit.Seq {
		return 1
	}
	if message.Epoch == permit.Epoch && message.Seq == permit.Seq && (permit.NotAfter == nil || message.NotAfter != nil && !message.NotAfter.Before(permit.NotAfter)) {
		return 1
	}
	return 0
}

// advance makes the next write of an executor. A write with a wrong precondition ends the run.
func (w *world) advance(e int) {
	x := &w.executors[e]
	next := x.writes[0]
	x.writes = x.writes[1:]
	switch {
	case next.status != nil:
		if next.rv != w.rv {
			x.writes = nil // a conflict
			return
		}
		w.model.check.commit(w, *next.status)
		w.status = *next.status
		w.rv++
		x.stale = false // its own write is in its cache
	case next.published != nil:
		for name, permit := range next.published {
			if samePermit(w.down[name], permit) == 0 { // the publish is refused if the last message is newer
				w.down[name] = permit
			}
		}
	case next.others != nil:
		for name, t := range next.others {
			w.writeTarget(name, t)
		}
	default:
		w.writeTarget(next.cluster, *next.target)
	}
}

// writeTarget stores a FleetTarget, unless the stored permit is newer.
func (w *world) writeTarget(name string, t Target) {
	if stored, is := w.targets[name]; is && (stored.Permit.Epoch > t.Permit.Epoch || stored.Permit.Epoch == t.Permit.Epoch && stored.Permit.Seq > t.Permit.Seq) {
		return
	}
	w.targets[name] = t
	w.rv++
}

// receive lets a member take its last message.
func (w *world) receive(i int) {
	m := &w.members[i]
	permit := w.down[memberName(i)]
	if permit.RolloutUID != "" && permit.RolloutUID != w.report(i).RolloutUID {
		m.permit, m.state, m.healthy = permit, api.FleetReportHeld, 0 // it is for a Rollout of this name that was deleted
		return
	}
	renewed := permit.Epoch == m.permit.Epoch && permit.Seq == m.permit.Seq
	m.permit = permit
	if renewed {
		return
	}
	m.healthy = 0
	underWay := m.state == api.FleetReportProgressing && !m.back || m.state == api.FleetReportAtHold || m.goesWithoutPermit()
	version := versionOfKey(permit.Version)
	m.reason, m.undelivered = "", false
	switch permit.Verb {
	case api.FleetVerbHold:
		if m.state == api.FleetReportProgressing && !m.back && !m.overridden {
			m.state = api.FleetReportAtHold
		}
	case api.FleetVerbRelease:
		if m.blocked == version {
			m.blocked = 0 // the hub gives a permit only after a person has unblocked the version
		}
		switch {
		case m.goesWithoutPermit():
			m.state = api.FleetReportProgressing
		case m.stable != version && m.expired(w.time()):
			m.state = api.FleetReportHeld // too late
		case m.template != version && len(permit.Images) > 0:
			m.state, m.undelivered = api.FleetReportProgressing, true
		case m.template != version || len(permit.Images) == 0 && permit.Revision != fmt.Sprintf("h%d", m.template):
			m.state = api.FleetReportHeld
		case m.stable == version:
			m.state = api.FleetReportCompleted
			w.completed[i] = permit.Epoch
		default:
			w.model.check.begins(w, i, version)
			m.state = api.FleetReportProgressing
		}
	case api.FleetVerbAbort:
		m.state = api.FleetReportCompleted
		if underWay {
			m.state, m.back = api.FleetReportProgressing, true
		}
	case api.FleetVerbWithdraw:
		m.blocked, m.blockedEpoch = version, permit.Epoch
		m.state = api.FleetReportCompleted
		switch {
		case m.stable == version && m.good == version: // the Rollout was created again, and knows no version before
			m.state, m.reason = api.FleetReportFailed, api.FleetReasonNoWayBack
		case m.stable == version || underWay && m.template == version:
			m.state, m.back = api.FleetReportProgressing, true
		}
	}
}

// setImages lets a member set the images of its permit, whose release then begins.
func (w *world) setImages(i int) {
	m := &w.members[i]
	m.template, m.undelivered = versionOfKey(m.permit.Version), false
	w.model.check.begins(w, i, m.template)
}

// expired reports whether the time of the permit is over. Then no step begins before the hub renews it.
func (m *memberWorld) expired(now time.Time) bool {
	return m.permit.NotAfter != nil && now.After(m.permit.NotAfter.Time)
}

// goOn lets a release of a member, or its way back, reach its next point.
func (w *world) goOn(i int) {
	m := &w.members[i]
	m.healthy = 0
	switch {
	case m.back:
		m.back, m.overridden, m.state = false, false, api.FleetReportCompleted
		if m.stable == m.blocked {
			m.stable = m.good
		}
	case m.goesWithoutPermit():
		m.good, m.stable = m.stable, m.template
		switch {
		case m.permit.Verb == api.FleetVerbRelease && m.permit.Version == keyOf(m.stable):
			m.state, w.completed[i] = api.FleetReportCompleted, m.permit.Epoch
		case m.permit.Verb == api.FleetVerbRelease || m.permit.Verb == "":
			m.state = api.FleetReportIdle
		}
	case m.permit.HoldAt > 0:
		m.state = api.FleetReportAtHold
	default:
		m.state, m.good, m.stable = api.FleetReportCompleted, m.stable, m.template
		w.completed[i] = m.permit.Epoch
	}
}

// demoSpec returns a valid plan of waves.
func demoSpec(t testing.TB, budgets *api.FleetBudgets, waves ...api.FleetWave) Spec {
	t.Helper()
	for i := range waves {
		waves[i].Name = fmt.Sprintf("w%d", i+1)
	}
	s, err := Parse(api.FleetStrategy{Waves: waves, Budgets: budgets})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }

func minutes(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

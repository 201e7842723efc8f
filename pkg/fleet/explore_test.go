package fleet

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

func sortedNames(m map[string]Target) []string { return slices.Sorted(maps.Keys(m)) }

// actsOfUsers bounds the explorations. Two acts let a person act while the fleet is still busy with the act before.
var actsOfUsers = flag.Int("fleet.acts", 1, "how many faults and acts of users beyond approvals an exploration has at most")

// models returns the small worlds that the test explores completely.
func models(t testing.TB) []*model {
	one := api.FleetWave{MaxConcurrency: number(1)}
	all := api.FleetWave{MaxConcurrency: number(2)}
	first := api.FleetWave{MaxConcurrency: number(1), Percent: 50}
	quarter := api.FleetWave{MaxConcurrency: number(1), Percent: 25}
	manual := first
	manual.Pause = &api.Pause{}
	held := api.FleetWave{MaxConcurrency: number(2), HoldAt: &api.FleetHoldAt{Step: 1, Soak: minutes(5), Pause: &api.Pause{}}}
	heldFirst := held
	heldFirst.MaxConcurrency, heldFirst.Percent = number(1), 50
	soaked := first
	soaked.Soak = minutes(10)
	heldSoaked := soaked
	heldSoaked.HoldAt = &api.FleetHoldAt{Step: 1, Soak: minutes(5)}
	tolerant := &api.FleetBudgets{Failed: number(1), Unreachable: number(1), Unknown: number(1)}
	every := []api.FleetCommandAction{api.FleetCommandPause, api.FleetCommandResume, api.FleetCommandRollback, api.FleetCommandAbort, api.FleetCommandReject,
		api.FleetCommandRetry, api.FleetCommandSkip, api.FleetCommandPromote, api.FleetCommandUnblock}
	return []*model{
		{name: "two clusters, two waves", members: 2, spec: demoSpec(t, nil, manual, one), user: every},
		{name: "metrics fail", members: 2, spec: demoSpec(t, nil, soaked, one), fails: true, user: every},
		{name: "metrics fail within budgets", members: 3, spec: demoSpec(t, tolerant, first, all), fails: true},
		{name: "four clusters, three waves", members: 4, spec: demoSpec(t, nil, quarter, first, one), fails: true},
		{name: "clusters are cut off", members: 2, spec: demoSpec(t, tolerant, first, one), cuts: true, user: every},
		{name: "clusters of one wave are cut off", members: 2, spec: demoSpec(t, tolerant, one), cuts: true},
		{name: "a hold at step 1", members: 2, spec: demoSpec(t, nil, held), fails: true, user: []api.FleetCommandAction{api.FleetCommandPause, api.FleetCommandResume, api.FleetCommandReject}},
		{name: "a hold of a cluster that is cut off", members: 2, spec: demoSpec(t, tolerant, heldFirst, one), cuts: true},
		{name: "pods become unready", members: 2, spec: demoSpec(t, nil, heldSoaked, one), ails: true, user: []api.FleetCommandAction{api.FleetCommandRetry, api.FleetCommandSkip, api.FleetCommandPause, api.FleetCommandResume}},
		{name: "Rollouts are deleted, and clusters cordoned", members: 2, spec: demoSpec(t, tolerant, first, one), rests: true, user: []api.FleetCommandAction{api.FleetCommandRollback, api.FleetCommandAbort, api.FleetCommandResume}},
		{name: "a newer version", members: 2, spec: demoSpec(t, nil, first, one), third: true, fails: true, user: []api.FleetCommandAction{api.FleetCommandRollback}},
		{name: "an override in a cluster", members: 2, spec: demoSpec(t, nil, one), override: true, user: []api.FleetCommandAction{api.FleetCommandRollback, api.FleetCommandAbort}},
		{name: "images are set", members: 2, spec: demoSpec(t, nil, first, one), patches: true, third: true, fails: true, user: every},
		{name: "images are set in clusters that are cut off", members: 2, spec: demoSpec(t, tolerant, first, one), patches: true, cuts: true, crashes: true, user: every},
		{name: "images are set up to a hold", members: 2, spec: demoSpec(t, nil, held), patches: true, user: []api.FleetCommandAction{api.FleetCommandPause, api.FleetCommandResume}},
		{name: "a cluster joins", members: 2, spec: demoSpec(t, tolerant, one), joins: true, user: []api.FleetCommandAction{api.FleetCommandRollback}},
		{name: "the hub is restored", members: 2, spec: demoSpec(t, nil, first, one), backups: true, user: []api.FleetCommandAction{api.FleetCommandResume}},
		{name: "executors die", members: 2, spec: demoSpec(t, nil, first, one), crashes: true, user: []api.FleetCommandAction{api.FleetCommandRollback, api.FleetCommandPause, api.FleetCommandResume}},
		{name: "a late executor", members: 2, spec: demoSpec(t, nil, one), stale: true, user: []api.FleetCommandAction{api.FleetCommandRollback}},
	}
}

// checks are the invariants. They compare the hub's decisions with the true state of the members.
type checks struct {
	t     testing.TB
	where func() string
	fails int
}

func (c *checks) fail(invariant, format string, args ...any) {
	if c.fails++; c.fails > 3 {
		return
	}
	c.t.Errorf("%s: %s\n%s", invariant, fmt.Sprintf(format, args...), c.where())
}

// planned checks that the same observation leads to the same decision.
func (c *checks) planned(w *world, seen Seen, d Decision) {
	again := Plan(seen, w.time())
	if !equality.Semantic.DeepEqual(again.Status, d.Status) || !equality.Semantic.DeepEqual(again.Targets, d.Targets) || !again.WakeAt.Equal(d.WakeAt) {
		c.fail("SameSeenSameDecision", "two decisions differ")
	}
	g, before := d.Status.Grant, seen.Status.Grant
	if g != nil && (before == nil || before.Seq != g.Seq) && g.Verb == api.FleetVerbRelease && (d.Status.Paused || seen.Paused || rejectedLast(d.Status)) {
		c.fail("NoGrantWhilePaused", "grant %d is given although the release is paused or rejected", g.Seq)
	}
	if g == nil || before != nil && before.Seq == g.Seq {
		return
	}
	c.leavesOverridden(seen, d)
	if g.Verb != api.FleetVerbRelease || g.Wave == 0 {
		return
	}
	c.holdsApproved(d.Status, w.model.spec.Waves[g.Wave-1])
	wave, failed := d.Status.Waves[g.Wave-1], 0
	for _, name := range wave.Clusters {
		r, t := seen.Reports[name], seen.Targets[name]
		answered := t.Permit.Seq > 0 && r.Epoch == t.Permit.Epoch && r.Seq == t.Permit.Seq && r.Epoch == d.Status.Epoch
		if answered && r.State == api.FleetReportFailed && !w.members[memberIndex(name)].gone &&
			!slices.Contains(d.Status.Skipped, name) && !slices.Contains(seen.Status.Retries, name) && !slices.Contains(g.Clusters, name) {
			failed++
		}
	}
	if limit := w.model.spec.Waves[g.Wave-1].Failed.RoundDown(len(wave.Clusters)); failed > limit {
		c.fail("NoGrantAboveABudget", "%d clusters of wave %d have failed, and %d may", failed, g.Wave, limit)
	}
}

// holdsApproved checks that a person has approved the hold of a wave before the hub gives permits beyond the hold.
func (c *checks) holdsApproved(s api.FleetRolloutStatus, wave Wave) {
	g := s.Grant
	if !wave.HoldPause.Manual || g.HoldAt > 0 || s.Promoted >= g.Wave {
		return
	}
	if !slices.ContainsFunc(s.Approvals, func(a api.FleetApproval) bool {
		return a.Wave == g.Wave && a.Epoch >= s.Began && a.Decision == api.DecisionApprove
	}) {
		c.fail("NoGrantPastAHold", "the hub lets clusters pass the hold of wave %d by grant %d, and no person has approved the hold", g.Wave, g.Seq)
	}
}

// leavesOverridden checks that only a person takes back a release that goes on without permits.
func (c *checks) leavesOverridden(seen Seen, d Decision) {
	g, before := d.Status.Grant, seen.Status.Grant
	if g.Verb != api.FleetVerbAbort || d.Status.Verb != api.FleetVerbRelease {
		return
	}
	for _, name := range g.Clusters {
		writing := before != nil && slices.Contains(before.Clusters, name) // another executor may be writing its permit
		if seen.Reports[name].Overridden != "" && !slices.Contains(d.Status.Skipped, name) && !writing {
			c.fail("OverriddenReleaseGoesOn", "%s is told to go back", name)
		}
	}
}

// rejectedLast reports whether the last decision about the release is a rejection.
func rejectedLast(s api.FleetRolloutStatus) bool {
	n := len(s.Approvals)
	return n > 0 && s.Approvals[n-1].Epoch == s.Epoch && s.Approvals[n-1].Decision == api.DecisionReject
}

// commit checks a status before it is stored.
func (c *checks) commit(w *world, next api.FleetRolloutStatus) {
	before := w.status
	if next.Epoch < before.Epoch || next.Grant != nil && before.Grant != nil && next.Grant.Seq < before.Grant.Seq {
		c.fail("EpochAndSeqNeverFall", "epoch %d after %d", next.Epoch, before.Epoch)
	}
	if g := next.Grant; g != nil && (before.Grant == nil || before.Grant.Seq != g.Seq) {
		c.granted(w, next, *g)
	}
	for i, wave := range next.Waves {
		passedNow := wave.Stage == api.FleetWavePassed && (i >= len(before.Waves) || before.Waves[i].Stage != api.FleetWavePassed || !before.Waves[i].Began.Equal(&wave.Began))
		if passedNow && !slices.ContainsFunc(wave.Clusters, func(name string) bool { return w.completed[memberIndex(name)] >= next.Began }) {
			c.fail("EachPassedWaveHasProof", "wave %d has passed without a cluster that completed since epoch %d", i+1, next.Began)
		}
	}
	for i, wave := range next.Waves {
		if i < len(before.Waves) && before.Waves[i].Began.Equal(&wave.Began) && before.Waves[i].Stage != wave.Stage && !next.SkipSoak {
			c.soaked(w, next, before.Waves[i].Stage, i)
		}
	}
	if next.Phase == api.FleetPhaseWithdrawn && before.Phase != api.FleetPhaseWithdrawn {
		w.withdrawn = versionOfKey(next.Release.Key())
		if !w.model.override && !w.model.rests { // what goes on without a permit, or in a Rollout that was created again, is known when its report has come
			c.nothingWithdrawnRuns(w, next)
		}
	}
	if next.Verb != api.FleetVerbWithdraw {
		w.withdrawn = 0
	}
}

// soaked checks that the clusters of a wave were healthy for long enough when the wave leaves a stage in which they soak.
func (c *checks) soaked(w *world, next api.FleetRolloutStatus, left api.FleetWaveStage, wave int) {
	wanted, state := time.Duration(0), api.FleetReportCompleted
	switch {
	case next.Waves[wave].Stage == api.FleetWaveSkipped:
	case left == api.FleetWaveHoldSoak:
		wanted, state = w.model.spec.Waves[wave].HoldSoak, api.FleetReportAtHold
	case left == api.FleetWaveGoing:
		wanted = w.model.spec.Waves[wave].Soak
	}
	for _, name := range next.Waves[wave].Clusters {
		m := w.members[memberIndex(name)]
		if m.gone || m.absent || m.state != state || m.permit.Epoch < next.Began || slices.Contains(next.Skipped, name) || w.targets[name].Status.Failure != "" {
			continue
		}
		if healthy := time.Duration(m.healthy) * time.Second; healthy < wanted {
			c.fail("EachClusterSoaks", "wave %d leaves stage %s, and %s was healthy for %s of %s", wave+1, left, name, healthy, wanted)
		}
	}
}

// granted checks a grant against the true state of the members.
func (c *checks) granted(w *world, next api.FleetRolloutStatus, g api.FleetGrant) {
	if g.Verb != api.FleetVerbRelease {
		return
	}
	if slices.ContainsFunc(next.Blocked, func(b api.FleetBlock) bool { return b.Version == next.Release.Key() && !b.Unblocked }) {
		c.fail("BlockedVersionGetsNoPermit", "grant %d is for %s", g.Seq, next.Release.Key())
	}
	if g.Wave == 0 {
		return // followers
	}
	wave, spec := next.Waves[g.Wave-1], w.model.spec.Waves[g.Wave-1]
	busy := len(g.Clusters)
	for _, name := range wave.Clusters {
		i := memberIndex(name)
		if w.members[i].gone || slices.Contains(next.Skipped, name) {
			continue
		}
		if !slices.Contains(g.Clusters, name) && w.moving(i, next.Epoch) {
			busy++
		}
	}
	if limit := spec.MaxConcurrency.RoundUp(len(wave.Clusters)); busy > limit {
		c.fail("GrantsKeepWithinLimits", "%d clusters of wave %d may move, and %d may at once", busy, g.Wave, limit)
	}
}

// moving reports whether a member may still go forward by a permit of the epoch that an executor has written.
func (w *world) moving(i int, epoch int64) bool {
	name, m := memberName(i), w.members[i]
	if m.state == api.FleetReportProgressing && !m.back && m.permit.Epoch == epoch {
		return true // also if it has not received an order to hold
	}
	t, is := w.targets[name]
	if !is || t.Permit.Epoch != epoch || t.Permit.Verb != api.FleetVerbRelease {
		return w.model.backups && m.state == api.FleetReportProgressing && !m.back && m.template == w.release // by a permit that the hub has forgotten
	}
	if m.permit.Epoch != t.Permit.Epoch || m.permit.Seq != t.Permit.Seq {
		return true // it has not received it
	}
	return m.state == api.FleetReportProgressing && !m.back
}

// nothingWithdrawnRuns checks that no reachable cluster runs the withdrawn version. The hub knows nothing about a cluster whose last report says that it has no Rollout.
func (c *checks) nothingWithdrawnRuns(w *world, next api.FleetRolloutStatus) {
	for i := range w.model.members {
		m := w.members[i]
		if m.gone || w.reports[memberName(i)].State == api.FleetReportAbsent || slices.Contains(next.Skipped, memberName(i)) {
			continue
		}
		if m.stable == w.withdrawn || m.template == w.withdrawn && !m.back && (m.state == api.FleetReportProgressing || m.state == api.FleetReportAtHold || m.overridden) {
			c.fail("NothingWithdrawnRuns", "%s runs version %d, and the hub says that it is withdrawn", memberName(i), w.withdrawn)
		}
	}
}

// begins checks that a member that begins a version is allowed to.
func (c *checks) begins(w *world, i int, version int8) {
	if w.withdrawn == version {
		c.fail("NothingWithdrawnRuns", "%s begins version %d, and the hub says that it is withdrawn", memberName(i), version)
	}
}

type explorer struct {
	model   *model
	ids     map[string]int32
	parents []int32
	names   []string
	next    []int32 // the next state if everything helps; -1 at the end
	todo    []known
}

type known struct {
	id    int32
	world world
}

func explore(t testing.TB, m *model) *explorer {
	e := &explorer{model: m, ids: map[string]int32{}}
	m.check, m.acts = &checks{t: t}, *actsOfUsers
	e.reach(newWorld(m), -1, "start")
	for len(e.todo) > 0 && m.check.fails == 0 {
		last := len(e.todo) - 1
		k := e.todo[last]
		e.todo = e.todo[:last]
		e.expand(k)
	}
	if m.check.fails == 0 {
		e.checkEnds()
	}
	return e
}

func (e *explorer) reach(w world, from int32, name string) int32 {
	key := w.key()
	if id, ok := e.ids[key]; ok {
		return id
	}
	id := int32(len(e.parents))
	e.ids[key] = id
	e.parents, e.names, e.next = append(e.parents, from), append(e.names, name), append(e.next, -1)
	e.todo = append(e.todo, known{id, w})
	return id
}

func (e *explorer) expand(k known) {
	e.model.check.where = func() string { return e.path(k.id) }
	helping := k.world.helpful()
	for i, m := range slices.Concat(helping, k.world.others()) {
		after := k.world.clone()
		e.model.check.where = func() string { return e.path(k.id) + "\n> " + m.name }
		m.do(&after)
		id := e.reach(after, k.id, m.name)
		if i == 0 && len(helping) > 0 {
			e.next[k.id] = id
		}
	}
	if len(helping) == 0 {
		e.model.check.where = func() string { return e.path(k.id) }
		e.checkEnd(&k.world)
	}
}

// checkEnd checks a state in which only a person can go on: it has an end, or says which person must do what.
func (e *explorer) checkEnd(w *world) {
	s := w.status
	switch s.Phase {
	case api.FleetPhaseWithdrawn:
		e.model.check.nothingWithdrawnRuns(w, s)
	case api.FleetPhaseSucceeded, api.FleetPhaseAborted:
	case api.FleetPhasePaused, api.FleetPhaseStalled, api.FleetPhaseWithdrawing:
		if !strings.Contains(s.Message, "sluice fleet") && s.Reason != "HubCutOff" {
			e.model.check.fail("EveryWaitHasADeadlineOrAPerson", "%s (%s) says: %s", s.Phase, s.Reason, s.Message)
		}
	default:
		e.model.check.fail("EveryWaitHasADeadlineOrAPerson", "the release stands still in phase %s (%s): %s\n%s", s.Phase, s.Reason, s.Message, w.describe())
	}
}

// checkEnds checks that the helpful moves lead to an end from every state.
func (e *explorer) checkEnds() {
	const onWay, done = 1, 2
	mark := make([]int8, len(e.next))
	for id := range e.next {
		var way []int32
		for at := int32(id); at >= 0 && mark[at] != done; at = e.next[at] {
			if mark[at] == onWay {
				e.model.check.where = func() string { return e.path(at) }
				e.model.check.fail("EveryReleaseEnds", "the release goes in a circle")
				return
			}
			mark[at] = onWay
			way = append(way, at)
		}
		for _, at := range way {
			mark[at] = done
		}
	}
}

func (e *explorer) path(id int32) string {
	var names []string
	for ; id >= 0; id = e.parents[id] {
		names = append(names, e.names[id])
	}
	slices.Reverse(names)
	return "> " + strings.Join(names, "\n> ")
}

// key returns a text that is the same for two worlds that behave alike: times count from now, and numbers by their order.
func (w *world) key() string {
	type executor struct {
		Writes []string
		Stale  bool
		Status api.FleetRolloutStatus
		Cached map[string]Target
		Fresh  bool
	}
	k := struct {
		Release   int8
		Paused    bool
		Status    api.FleetRolloutStatus
		Targets   map[string]Target
		Reports   map[string]api.FleetReport
		Down      map[string]api.FleetPermit
		Members   []string
		Permits   []api.FleetPermit
		Executors []executor
		Budget    int
		Withdrawn int8
		Completed []bool
		Backup    *api.FleetRolloutStatus
		BackedUp  map[string]Target
	}{w.release, w.paused, *keyStatus(&w.status, w.targets), keyTargets(w.targets), w.reports, w.down, nil, nil, nil, w.budget, w.withdrawn, nil, nil, nil}
	if w.backup != nil {
		k.Backup, k.BackedUp = keyStatus(&w.backup.status, w.backup.targets), keyTargets(w.backup.targets)
	}
	for i := range w.model.members {
		m := w.members[i]
		since, silence := 0, m.silence
		if m.cut {
			since = min(w.now-m.cutSince, 120)
		}
		for k := range silence {
			if m.silence[1] > 0 {
				silence[k] = min(w.now-silence[k], 3600)
			}
		}
		k.Members = append(k.Members, fmt.Sprint(m.gone, m.cut, since, silence, m.template, m.stable, m.good, m.state, m.reason, m.back, m.blocked, m.unhealthy, m.healthy, m.absent, m.cordoned, m.uid, m.overridden, m.undelivered))
		k.Permits = append(k.Permits, m.permit)
		k.Completed = append(k.Completed, w.completed[i] >= w.status.Began)
	}
	for _, x := range w.executors {
		var writes []string
		for _, next := range x.writes {
			text, _ := json.Marshal(struct {
				S *api.FleetRolloutStatus
				T *Target
				C string
				O map[string]Target
				P map[string]api.FleetPermit
				F bool
			}{keyStatus(next.status, nil), next.target, next.cluster, keyTargets(next.others), next.published, next.rv == w.rv})
			writes = append(writes, string(text))
		}
		k.Executors = append(k.Executors, executor{writes, x.stale, *keyStatus(&x.status, x.cached), keyTargets(x.cached), x.rv == w.rv})
	}
	text, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	return w.normalise(string(text))
}

// keyStatus leaves out the parts of a status that no later decision depends on.
func keyStatus(s *api.FleetRolloutStatus, targets map[string]Target) *api.FleetRolloutStatus {
	if s == nil {
		return nil
	}
	short := *s.DeepCopy()
	short.Transitions, short.TransitionSeq, short.Plan = nil, 0, nil
	if n := len(short.Approvals); n > 0 {
		short.Approvals = short.Approvals[n-1:]
		short.Approvals[0].Time = metav1.MicroTime{}
		if short.Approvals[0].Epoch != s.Epoch {
			short.Approvals = nil
		}
	}
	if g := short.Grant; g != nil {
		done := true
		for _, name := range g.Clusters {
			t, is := targets[name]
			done = done && is && (t.Permit.Epoch > g.Epoch || t.Permit.Epoch == g.Epoch && t.Permit.Seq >= g.Seq)
		}
		if done {
			short.Grant = &api.FleetGrant{Epoch: g.Epoch, Seq: g.Seq}
		}
	}
	for i := range short.Waves {
		switch wave := &short.Waves[i]; wave.Stage {
		case api.FleetWavePassed, api.FleetWaveSkipped:
			wave.Since, wave.Began = metav1.MicroTime{}, metav1.MicroTime{}
		case api.FleetWaveGoing, api.FleetWaveToHold:
			wave.Since = metav1.MicroTime{}
		}
	}
	return &short
}

// keyTargets leaves out the times of targets that no later decision depends on.
func keyTargets(targets map[string]Target) map[string]Target {
	short := make(map[string]Target, len(targets))
	for name, t := range targets {
		s := t.Status
		if s.Reason != reasonGoingBack {
			s.Since = nil
		}
		switch s.Phase {
		case api.FleetTargetCompleted, api.FleetTargetFailed, api.FleetTargetWithdrawn, api.FleetTargetSkipped, api.FleetTargetLeft:
			s.HeldSince, s.CompletedAt, s.SoakingSince, s.ProgressingSince, s.Soaked, s.Progressed = nil, nil, nil, nil, metav1.Duration{}, metav1.Duration{}
			t.Permit.NotAfter = nil
		}
		t.Status = s
		short[name] = t
	}
	return short
}

// normalise replaces times by seconds before now, at most an hour, and counters by their places in the order of all of their kind.
func (w *world) normalise(text string) string {
	values := map[string][]int{}
	scan(text, nil, func(name string, n int) string {
		values[name] = append(values[name], n)
		return ""
	})
	for name := range values {
		slices.Sort(values[name])
		values[name] = slices.Compact(values[name])
	}
	return scan(text, func(at time.Time) string {
		return strconv.Itoa(int(max(at.Sub(w.time()), -time.Hour) / time.Second))
	}, func(name string, n int) string {
		place, _ := slices.BinarySearch(values[name], n)
		return strconv.Itoa(place)
	})
}

// scan returns a JSON text with other times and counters. JSON inside of strings has escaped quotes.
func scan(text string, atTime func(time.Time) string, atCounter func(name string, n int) string) string {
	out := make([]byte, 0, len(text))
	for {
		quote := strings.IndexByte(text, '"')
		if quote < 0 {
			return string(append(out, text...))
		}
		out = append(out, text[:quote+1]...)
		text = text[quote+1:]
		end := 0
		for end < len(text) && text[end] != '"' && text[end] != '\\' {
			end++
		}
		word := text[:end]
		switch word {
		case "epoch", "seq", "pauseSeq":
			rest := strings.TrimLeft(text[end:], `\":`)
			digits := 0
			for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
				digits++
			}
			n, _ := strconv.Atoi(rest[:digits])
			out = append(append(out, word...), atCounter(word, n)...)
			text = rest[digits:]
			continue
		}
		if atTime != nil && len(word) > 18 && word[4] == '-' && word[10] == 'T' {
			if at, err := time.Parse(time.RFC3339Nano, word); err == nil {
				word = atTime(at)
			}
		}
		out = append(out, word...)
		text = text[end:]
	}
}

func (w *world) describe() string {
	text, _ := json.MarshalIndent(struct {
		Status  api.FleetRolloutStatus
		Targets map[string]Target
	}{*keyStatus(&w.status, w.targets), w.targets}, "", " ")
	return string(text)
}

func TestEveryStateOfSmallFleets(t *testing.T) {
	t.Parallel()
	for _, m := range models(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			e := explore(t, m)
			t.Logf("%s: %d states", m.name, len(e.parents))
		})
	}
}

func TestEachInvariantOfFleetsIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("explore_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range strings.Split(string(source), "fail(\"")[1:] {
		if name, _, _ := strings.Cut(call, "\""); !strings.Contains(string(page), "- `"+name+"`: ") {
			t.Errorf("docs/invariants.md does not describe %s", name)
		}
	}
}

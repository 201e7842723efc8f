package fleet

import (
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// move is one thing that can happen.
type move struct {
	name string
	do   func(*world)
}

// helpful lists the moves that bring a release on: executors, members, messages, tools and time. Without any, only a person can go on.
func (w *world) helpful() []move {
	var moves []move
	for e := range w.executors {
		if x := w.executors[e]; len(x.writes) > 0 {
			moves = append(moves, move{fmt.Sprintf("executor %d: %s", e, x.writes[0]), func(w *world) { w.advance(e) }})
		}
	}
	for i := range w.model.members {
		moves = append(moves, w.memberMoves(i)...)
	}
	if len(w.executors[0].writes) == 0 {
		planned := w.clone()
		planned.executors[0].stale = false
		if planned.plan(0) {
			moves = append(moves, move{"executor 0 plans", func(w *world) { *w = planned.clone() }})
		}
	}
	moves = append(moves, w.membersToReturn()...)
	if len(moves) == 0 {
		moves = w.approve()
	}
	if len(moves) == 0 && !w.awaitsPerson() {
		moves = w.timePasses()
	}
	if away := w.membersToReturn(); len(away) > 0 && len(moves) == len(away) { // all others have done what they can
		moves = append(moves, w.timePasses()...)
	}
	return moves
}

// awaitsPerson reports whether only a person can let the release go on. Permits are still renewed in that time.
func (w *world) awaitsPerson() bool {
	return w.status.Phase == api.FleetPhaseStalled || w.status.Phase == api.FleetPhasePaused && w.status.Reason != "Duration"
}

// membersToReturn lists the moves that end what keeps members back: they are heard, healthy, cordoned or without a Rollout no longer.
func (w *world) membersToReturn() (moves []move) {
	for i, m := range w.members {
		name := memberName(i)
		switch {
		case m.gone:
		case m.cut:
			moves = append(moves, move{name + " is heard again", func(w *world) { w.hearAgain(i) }})
		case m.unhealthy:
			moves = append(moves, move{name + " is healthy again", func(w *world) { w.members[i].unhealthy = false }})
		case m.cordoned:
			moves = append(moves, move{name + " is cordoned no longer", func(w *world) { w.members[i].cordoned = false }})
		case m.absent:
			moves = append(moves, move{"the Rollout of " + name + " is created again", func(w *world) { w.createAgain(i) }})
		}
	}
	return moves
}

func (w *world) hearAgain(i int) {
	m := &w.members[i]
	m.cut = false
	if w.now-m.cutSince >= int(UnreachableAfter/time.Second) {
		m.silence = [2]int{m.cutSince, w.now}
	}
}

// createAgain creates a Rollout for the workload of a member. It remembers nothing.
func (w *world) createAgain(i int) {
	m := &w.members[i]
	m.absent, m.uid, m.permit, m.blocked, m.blockedEpoch, m.back, m.overridden, m.reason, m.undelivered, m.good = false, m.uid+1, api.FleetPermit{}, 0, 0, false, false, "", false, m.stable
	m.state = api.FleetReportIdle
	if m.template != m.stable {
		m.state = api.FleetReportHeld
	}
}

// deleteRollout deletes the Rollout of a member. A release under way gives the workload its stable template back.
func (w *world) deleteRollout(i int) {
	m := &w.members[i]
	if m.state == api.FleetReportProgressing || m.state == api.FleetReportAtHold {
		m.template = m.stable
	}
	m.absent, m.state, m.back, m.undelivered, m.healthy = true, api.FleetReportIdle, false, false, 0
}

func (w *world) memberMoves(i int) []move {
	m, name := w.members[i], memberName(i)
	if m.gone {
		return nil
	}
	if m.cut {
		return nil
	}
	var moves []move
	if !sameReport(w.reports[name], w.report(i)) {
		moves = append(moves, move{"the report of " + name + " arrives", func(w *world) { w.reports[name] = w.report(i) }})
	}
	if m.absent {
		return moves
	}
	if permit, is := w.down[name]; is && samePermit(m.permit, permit) == 0 {
		moves = append(moves, move{name + " receives its permit", func(w *world) { w.receive(i) }})
	}
	if m.undelivered && !m.expired(w.time()) {
		moves = append(moves, move{name + " sets the images", func(w *world) { w.setImages(i) }})
	}
	if m.state == api.FleetReportProgressing && !m.undelivered && (m.back || !m.expired(w.time())) || m.goesWithoutPermit() {
		moves = append(moves, move{name + " goes on", func(w *world) { w.goOn(i) }})
	}
	if !w.model.patches && m.template != w.release && w.release != 0 && (m.state != api.FleetReportProgressing || m.back) && m.state != api.FleetReportAtHold {
		moves = append(moves, move{fmt.Sprintf("a tool delivers %s to %s", versionName(w.release), name), func(w *world) { w.deliver(i) }})
	}
	return moves
}

// deliver changes the template of a cluster. The hold policy holds it.
func (w *world) deliver(i int) {
	m := &w.members[i]
	m.template, m.overridden = w.release, false
	if m.state == api.FleetReportIdle {
		m.state = api.FleetReportHeld
	}
}

// timePasses moves the clock to the next time at which an executor plans again.
func (w *world) timePasses() []move {
	seen := w.see(0)
	for name, m := range seen.Members {
		if !w.members[memberIndex(name)].cut {
			m.LastSeen = w.time().Add(24 * time.Hour) // heartbeats go on
			seen.Members[name] = m
		}
	}
	d := Plan(seen, w.time())
	if d.WakeAt.IsZero() || d.WakeAt.After(w.time().Add(12*time.Hour)) {
		return nil
	}
	seconds := int(d.WakeAt.Sub(start)/time.Second) + 1
	return []move{{"time passes", func(w *world) {
		for i := range w.members {
			if m := &w.members[i]; !m.cut && !m.unhealthy {
				m.healthy = min(m.healthy+max(0, seconds-w.now), 3600)
			}
		}
		w.now = max(w.now, seconds)
	}}}
}

// others lists faults, and the acts of users.
func (w *world) others() []move {
	if w.budget == 0 {
		return nil
	}
	var moves []move
	spend := func(name string, do func(*world)) {
		moves = append(moves, move{name, func(w *world) { w.budget--; do(w) }})
	}
	m := w.model
	for e := range w.executors {
		if m.crashes && len(w.executors[e].writes) > 0 {
			spend(fmt.Sprintf("executor %d dies", e), func(w *world) { w.executors[e] = executorWorld{} })
		}
	}
	if m.stale && len(w.executors[1].writes) == 0 {
		moves = append(moves, w.secondExecutor()...)
	}
	if m.backups && w.backup == nil {
		moves = append(moves, move{"the hub is backed up", func(w *world) { w.backup = &backup{w.status, w.clone().targets} }})
	}
	if m.backups && w.backup != nil {
		spend("the hub is restored", func(w *world) {
			w.status, w.targets, w.executors, w.backup = w.backup.status, w.backup.targets, [2]executorWorld{}, nil
			w.rv++
		})
	}
	if last := m.members - 1; m.joins && w.members[last].gone {
		moves = append(moves, move{memberName(last) + " joins", func(w *world) { w.members[last].gone = false }})
	}
	for i := range m.members {
		c := w.members[i]
		if c.gone {
			continue
		}
		if m.fails && c.state == api.FleetReportProgressing && !c.back {
			spend(memberName(i)+" fails by metrics", func(w *world) { w.fail(i, api.FleetReasonMetrics) })
			spend(memberName(i)+" is rolled back by a person", func(w *world) { w.fail(i, "RolledBack") })
			if m.patches && !c.undelivered {
				spend("a tool takes back the images of "+memberName(i), func(w *world) {
					w.members[i].template = c.stable
					w.fail(i, api.FleetReasonTakenBack)
				})
			}
		}
		if m.override && c.template != c.stable && c.template != c.blocked && c.state != api.FleetReportProgressing {
			spend("a user overrides the fleet in "+memberName(i), func(w *world) { w.override(i) })
		}
		if m.ails && !c.unhealthy {
			spend("pods of "+memberName(i)+" become unready", func(w *world) { w.members[i].unhealthy = true })
		}
		if m.rests && !c.cordoned && !c.absent {
			spend(memberName(i)+" is cordoned", func(w *world) { w.members[i].cordoned = true })
			spend("the Rollout of "+memberName(i)+" is deleted", func(w *world) { w.deleteRollout(i) })
		}
		if m.cuts && !c.cut {
			spend(memberName(i)+" is cut off", func(w *world) { w.members[i].cut, w.members[i].cutSince = true, w.now })
			spend(memberName(i)+" leaves", func(w *world) { w.members[i].gone = true })
		}
	}
	if m.third && w.release == 2 {
		spend("version 3 is released", func(w *world) { w.release = 3 })
	}
	for _, action := range m.user {
		if c, ok := w.command(action); ok {
			spend("a user types "+string(action), func(w *world) { w.giveCommand(c) })
		}
	}
	return moves
}

// secondExecutor lets the second executor read the API server, and plan later by what it read.
func (w *world) secondExecutor() []move {
	x := w.executors[1]
	if x.stale && x.rv != w.rv {
		planned := w.clone()
		if planned.plan(1) {
			return []move{{"executor 1 plans by its late cache", func(w *world) { *w = planned.clone() }}}
		}
	}
	if x.rv == w.rv && x.stale {
		return nil
	}
	return []move{{"executor 1 reads", func(w *world) {
		w.budget--
		w.executors[1] = executorWorld{stale: true, status: w.status, rv: w.rv, cached: w.clone().targets}
	}}}
}

func (w *world) fail(i int, reason string) {
	c := &w.members[i]
	c.state, c.reason = api.FleetReportFailed, reason
}

// override lets the release of a cluster go on without permits. A report that answers an order to go back stays as it is.
func (w *world) override(i int) {
	c := &w.members[i]
	c.overridden = true
	if forward(c.permit.Verb) || c.permit.Verb == "" {
		c.state = api.FleetReportProgressing
	}
}

// command returns a command that a front end would offer.
func (w *world) command(action api.FleetCommandAction) (api.FleetCommand, bool) {
	s := w.status
	if s.Release == nil || s.Command != nil {
		return api.FleetCommand{}, false
	}
	c := api.FleetCommand{Action: action, Epoch: s.Epoch, PauseSeq: s.PauseSeq, Actor: "kim"}
	switch action {
	case api.FleetCommandRetry, api.FleetCommandSkip:
		for _, name := range sortedNames(w.targets) {
			if phase := w.targets[name].Status.Phase; phase == api.FleetTargetFailed || phase == api.FleetTargetUnknown {
				c.Clusters = []string{name}
				return c, true
			}
		}
		return c, action == api.FleetCommandSkip && s.Reason == "NothingProven"
	case api.FleetCommandUnblock:
		c.Version = keyOf(2)
		return c, slices.ContainsFunc(s.Blocked, func(b api.FleetBlock) bool { return b.Version == c.Version && !b.Unblocked })
	case api.FleetCommandResume:
		return c, s.Paused || s.Restored || s.Verb == api.FleetVerbAbort
	case api.FleetCommandPause:
		return c, !s.Paused && s.Verb == api.FleetVerbRelease
	}
	return c, s.Verb == api.FleetVerbRelease
}

func (w *world) giveCommand(c api.FleetCommand) {
	s := *w.status.DeepCopy()
	s.Command = &c
	w.status = s
	w.rv++
}

// approve gives the approval that a wave waits for.
func (w *world) approve() []move {
	if w.status.Phase != api.FleetPhaseWaiting || w.status.Reason != "Approval" || w.status.Command != nil {
		return nil
	}
	c := api.FleetCommand{Action: api.FleetCommandApprove, Epoch: w.status.Epoch, PauseSeq: w.status.PauseSeq, Actor: "kim"}
	return []move{{"a user approves", func(w *world) { w.giveCommand(c) }}}
}

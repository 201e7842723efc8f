package planner

import (
	"fmt"
	"sluice.dev/sluice/pkg/rollout"
)

// rooms reports whether the workload has surge replicas for pods in parallel with its stable ones, as a CloneSet has.
func (m *model) rooms() bool { return m.beside() && m.lever == rollout.MechanismPartition }

func (w *world) seeRoom(seen *rollout.Workload) {
	if w.stopped {
		seen.Partition = rollout.Amount{Value: 100, Percent: true}
	}
	seen.Surged, seen.Budget = w.widened, rollout.Budget{Surge: int32(w.room)}
	seen.ReplicaSetsFrozen = w.widened && w.room == 0 && (w.stopped || w.current == w.template)
}

// kept is how many pods the controller leaves as they are, asked how many it is to run.
func (w *world) kept() int8 {
	if w.stopped {
		return w.asked()
	}
	return min(w.keep, w.asked())
}

func (w *world) asked() int8 { return w.size() + w.room }

// comesBack is the version in which a pod of an old version that is deleted comes back; 0 while there are too many.
func (w *world) comesBack() int8 {
	switch old := w.running() - w.pods[w.template]; {
	case w.running() > w.asked():
		return 0
	case old > w.kept():
		return w.template
	}
	return w.current
}

// comesInRoom is the version in which a pod that is missing is made: below the partition the current one.
func (w *world) comesInRoom() int8 {
	if w.running()-w.pods[w.template] < w.kept() {
		return w.current
	}
	return w.template
}

// roomy lists what the controller of a CloneSet does. It makes and takes pods before it replaces any, prefers to take those above its
// partition, and takes none that is ready while none is available.
func (w *world) roomy() []move {
	var moves []move
	add := func(when bool, name string, do func(*world)) {
		if when {
			moves = append(moves, move{name: name, do: func(w *world) { do(w); w.touched(onWorkload) }})
		}
	}
	t, told := w.template, w.asked()
	old := w.running() - w.pods[t]
	unready := func(v int8) bool { return w.raw[v] > 0 }
	switch extra := w.running() - told; {
	case extra < 0:
		add(true, fmt.Sprintf("the workload makes a pod of v%d", w.comesInRoom()), func(w *world) { w.makePod(w.comesInRoom()) })
	case extra > 0:
		for v := int8(1); v <= 3; v++ {
			above := v != t && old > w.kept() || v == t && old <= w.kept()
			add(above && w.pods[v] > 0 && (unready(v) || !w.widened && w.allReady() > told-int8(w.model.maxUnavailable())),
				fmt.Sprintf("the workload takes a pod of v%d that is too many", v), func(w *world) { w.takePod(v) })
		}
	case old > w.kept() && w.pods[t] < told-w.kept():
		for v := int8(1); v <= 3; v++ {
			idle := !w.widened && w.allReady() == told || w.widened && w.pods[t] == 0
			add(v != t && w.pods[v] > 0 && (unready(v) || idle), fmt.Sprintf("the workload replaces a pod of v%d", v), func(w *world) { w.takePod(v) })
		}
	}
	add(w.pods[t] == told && w.running() == told && w.current != t, "the version is the current one", func(w *world) {
		if w.makeCurrent(); w.empty {
			w.forced = max(w.forced, 2) // it is documented: a release of a workload without pods has nothing to go back to, whichever is under way
		}
	})
	return moves
}

// letRoom is what the actions on a widened workload do to it; it reports whether the action is one of them.
func (w *world) letRoom(a rollout.Action) bool {
	switch a := a.(type) {
	case rollout.TakeOverWorkload:
		w.hold()
		w.widened, w.room = true, max(w.room, int8(a.Budget.Surge))
	case rollout.ResumeRollingUpdate:
		w.stopped, w.widened, w.keep, w.room = false, true, w.size(), int8(a.Budget.Surge)
	case rollout.FreezeWorkload:
		w.widened, w.room, w.keep, w.stopped = true, 0, 0, w.current != w.template
	case rollout.PauseWorkload:
		w.stopped, w.widened, w.room = true, false, 0
	default:
		return false
	}
	return true
}

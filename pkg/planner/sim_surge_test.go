package planner

import (
	"fmt"
	"sluice.dev/sluice/pkg/rollout"
)

// rooms reports whether the workload gets surge replicas in parallel to its stable pods, as a CloneSet does.
func (m *model) rooms() bool { return m.beside() && m.lever == rollout.MechanismPartition }

func (w *world) seeRoom(seen *rollout.Workload) {
	if w.stopped {
		seen.Partition = rollout.Amount{Value: 100, Percent: true}
	}
	seen.Surged, seen.Budget = w.widened, rollout.Budget{Surge: int32(w.room)}
	seen.ReplicaSetsFrozen = w.widened && w.room == 0 && (w.stopped || w.current == w.template)
}

// kept returns the number of pods that the controller leaves as they are. It is at most asked, the replicas with the room for new pods.
func (w *world) kept() int8 {
	if w.stopped {
		return w.asked()
	}
	return min(w.keep, w.asked())
}

func (w *world) asked() int8 { return w.size() + w.room }

// comesBack returns the version in which a deleted pod of an old version comes back; 0 while there are too many pods.
func (w *world) comesBack() int8 {
	switch old := w.running() - w.pods[w.template]; {
	case w.running() > w.asked():
		return 0
	case old > w.kept():
		return w.template
	}
	return w.current
}

// comesInRoom returns the version in which the controller creates a missing pod: below the partition, the current version.
func (w *world) comesInRoom() int8 {
	if w.running()-w.pods[w.template] < w.kept() {
		return w.current
	}
	return w.template
}

// roomy lists the moves of the controller of a CloneSet. It creates and deletes pods before it replaces any, and prefers to delete pods above its
// partition. While no pod is available, it deletes no ready pod.
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
			w.forced = max(w.forced, 2) // a documented limit: a release of a workload without pods has no version for a rollback
		}
	})
	return moves
}

// letRoom carries out the actions on a surged workload; it reports whether the action is one of them.
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

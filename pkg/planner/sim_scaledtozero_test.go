package planner

import "sluice.dev/sluice/pkg/rollout"

// size returns the replicas of the workload.
func (w *world) size() int8 {
	if w.empty {
		return 0
	}
	return w.model.size()
}

func (w *world) scaleToZero() {
	w.empty, w.room = true, 0 // the owner wants the number that is written there
	w.written()
	w.touched(onWorkload)
}

// scaleUp is the act of a user who first waits until all other actors have finished their work on a workload without pods. A user who does not wait
// for the executor gets the version that was created last.
func (w *world) scaleUp() {
	w.empty = false
	w.written()
	w.touched(onWorkload)
}

// calm reports whether only a user can make a move.
func (w *world) calm(moves []move) bool {
	return len(moves) == 0 || len(moves) == 1 && w.paused
}

// fromZero is the controller of a paused workload without pods. It creates all pods of one version: the version of the template if its ReplicaSet
// exists, or else the version that was created last.
func (w *world) fromZero() []move {
	v := w.template
	if !w.existed[v] {
		for other := int8(1); other <= 3; other++ {
			if w.existed[other] && (!w.existed[v] || w.made[other] > w.made[v]) {
				v = other
			}
		}
	}
	if w.empty || !w.existed[v] {
		return nil
	}
	return []move{{"the paused workload comes back as " + version(v), func(w *world) {
		m, stable := machine(&w.status), versionOf(machine(&w.status).StableRevision)
		releasing := rollout.State(m.State).InStep() || rollout.State(m.State) == rollout.StateAborted
		w.model.check.that(!releasing || w.forced > 0 || w.hasty || v == stable || !w.existed[stable], "StableComesBackFromZero", "%s comes back in a release from %s", version(v), version(stable))
		w.makePod(v)
		w.touched(onWorkload)
	}}}
}

// makeSet creates the ReplicaSet of a version, if it does not exist.
func (w *world) makeSet(v int8) {
	if w.existed[v] {
		return
	}
	w.existed[v], w.made[v] = true, 1
	for other := int8(1); other <= 3; other++ {
		if other != v && w.existed[other] {
			w.made[v] = max(w.made[v], w.made[other]+1)
		}
	}
}

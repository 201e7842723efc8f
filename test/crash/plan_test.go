package crash

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// act is one thing that is done in a release and can go wrong: the n-th of its kind, counted from 1. Kinds read as
// "PUT rollouts/app/status", "NATS ack" and "watcher watches deployments".
type act struct {
	kind string
	nth  int
}

func (a act) String() string { return a.kind + "#" + strconv.Itoa(a.nth) }

// way is how an act goes wrong.
type way string

// Ways of a write to Kubernetes; the first three are those of a word to NATS as well.
const (
	before way = "before" // it never arrives, and the executor is dead
	after  way = "after"  // it is carried out, and the executor dies before it learns that
	lost   way = "lost"   // it is carried out, and the executor is told that the connection broke
	gone   way = "gone"   // it never arrives because the connection breaks; for the watcher's hints, as a watcher may die and nobody take over

	conflict way = "409" // it is refused
	busy     way = "429"
	broken   way = "500"
	late     way = "late" // the executor loses NATS while it is on its way; it arrives when another executor has finished the release
)

// Ways of a frame of a watch.
const (
	dropped way = "drop"  // the watcher never sees it
	delayed way = "delay" // it comes when the release has gone on without it for a while, and so do those after it
	cut     way = "cut"   // the connection ends just before it
)

const (
	toNATS  = "NATS "
	hinting = toNATS + "hint"

	hintingToMeasure = toNATS + "hint to measure"
	// analyzing begins what an analyzer does, after the word that says whether it is said to NATS.
	analyzing = "analyzer"

	watches = " watches "
)

func (a act) isWord() bool  { return strings.HasPrefix(a.kind, toNATS) }
func (a act) isFrame() bool { return strings.Contains(a.kind, watches) }
func (a act) isWrite() bool { return !a.isWord() && !a.isFrame() }

// measures reports whether the act belongs to an analysis.
func (a act) measures() bool {
	return strings.Contains(a.kind, analyzing) || a.kind == hintingToMeasure
}

func (a act) ways() []way {
	switch {
	case a.kind == hinting || a.kind == hintingToMeasure:
		return []way{gone, lost}
	case a.isWord():
		return []way{before, after, lost}
	case a.isFrame():
		return []way{dropped, delayed, cut}
	}
	return []way{before, after, lost, conflict, busy, broken, late}
}

// plan is one act that goes wrong in one way. The zero value is the undisturbed run.
type plan struct {
	act
	way way
}

func (p plan) String() string { return p.act.String() + ":" + string(p.way) }

// makesLate reports whether an object is made after its time. Kubernetes knows no precondition for that, so for a moment no law holds;
// what is made is taken away again.
func (p plan) makesLate() bool { return p.way == late && strings.HasPrefix(p.kind, http.MethodPost) }

// within is the plan for a run that does just these acts: the last one of the kind where there are fewer than the plan counts on. Without
// an act of the kind, the plan stays as it is.
func (p plan) within(acts []act) plan {
	made := 0
	for _, a := range acts {
		if a.kind == p.kind {
			made = max(made, a.nth)
		}
	}
	if made > 0 {
		p.nth = min(p.nth, made)
	}
	return p
}

// parsePlan reads what String wrote.
func parsePlan(s string) (plan, error) {
	kind, rest, ok := strings.Cut(s, "#")
	count, name, ok2 := strings.Cut(rest, ":")
	n, err := strconv.Atoi(count)
	if !ok || !ok2 || err != nil {
		return plan{}, fmt.Errorf("parse plan %q: want one like PUT rollouts/app/status#4:409", s)
	}
	p := plan{act{kind, n}, way(name)}
	for _, w := range p.ways() {
		if w == p.way {
			return p, nil
		}
	}
	return plan{}, fmt.Errorf("parse plan %q: its ways are %v", s, p.ways())
}

// plans are all ways in which the acts of an undisturbed release can go wrong.
func plans(acts []act) []plan {
	var list []plan
	for _, a := range acts {
		for _, w := range a.ways() {
			list = append(list, plan{a, w})
		}
	}
	return list
}

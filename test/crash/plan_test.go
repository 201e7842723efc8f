package crash

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// act is one action of a release that can fail: the n-th of its kind, counted from 1. Kinds read as "PUT
// rollouts/app/status", "NATS ack" and "watcher watches deployments".
type act struct {
	kind string
	nth  int
}

func (a act) String() string { return a.kind + "#" + strconv.Itoa(a.nth) }

// way is a way in which an act fails.
type way string

// Ways of a write to Kubernetes. The first three are ways of a message to NATS, too. In a fleet, it may be late as well.
const (
	before way = "before" // it never arrives, and the executor is dead
	after  way = "after"  // it is carried out, and the executor dies before it reads the answer
	lost   way = "lost"   // it is carried out, and the executor gets an error because the connection broke
	gone   way = "gone"   // it never arrives because the connection breaks; for the watcher's hints, because a watcher may die without a successor

	conflict way = "409" // the API server refuses it
	busy     way = "429"
	broken   way = "500"
	late     way = "late"  // the executor loses NATS while the write is on its way; the write arrives when another executor has finished the release
	twice    way = "twice" // a message: NATS gets it twice
)

// Ways of a frame of a watch.
const (
	dropped way = "drop"  // the watcher never sees it
	delayed way = "delay" // it comes when the release has gone on without it for a while, and so do the frames after it
	cut     way = "cut"   // the connection ends just before it
)

const (
	toNATS  = "NATS "
	hinting = toNATS + "hint"
	// publishing begins the kinds of messages that are stored, without their sender.
	publishing = toNATS + "publish "

	hintingToMeasure = toNATS + "hint to measure"
	// analyzing begins the kinds of an analyzer's acts, after the prefix for messages to NATS.
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
	if who := a.inFleet(); who != "" {
		return a.waysInFleet(who)
	}
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

// plan is one act that fails in one way. The zero value is the undisturbed run.
type plan struct {
	act
	way way
}

func (p plan) String() string { return p.act.String() + ":" + string(p.way) }

// makesLate reports whether an object is created too late. Kubernetes has no precondition for that, so the laws do not
// hold for a moment. The executor deletes the object again.
func (p plan) makesLate() bool { return p.way == late && strings.HasPrefix(p.kind, http.MethodPost) }

// within adapts the plan to a run with these acts. If there are fewer of the kind than the plan expects, it takes the
// last one. Without an act of the kind, the plan stays as it is.
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

// parsePlan parses the output of String.
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

// plans returns all ways in which the acts of an undisturbed release can fail.
func plans(acts []act) []plan {
	var list []plan
	for _, a := range acts {
		for _, w := range a.ways() {
			list = append(list, plan{a, w})
		}
	}
	return list
}

package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// journal records the acts of the components of one run, and has the plan for its failure.
type journal struct {
	plan plan

	mu   sync.Mutex
	seen map[string]int
	acts []act
	// met counts the writes that met another one and were retried, by kind.
	met map[string]int
	// begun reports that the release has begun; frames of watches count from then on.
	begun bool
	// came reports that the act of the plan has come.
	came bool
	// writes counts the requests that could have changed something.
	writes   int
	breaches []string
	// routed is the time at which the last write to a route was sent.
	routed time.Time
}

func newJournal(p plan) *journal {
	return &journal{plan: p, seen: map[string]int{}, met: map[string]int{}}
}

// note counts an act and returns the way in which it fails, "" if it does not.
func (j *journal) note(kind string) way {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen[kind]++
	a := act{kind, j.seen[kind]}
	j.acts = append(j.acts, a)
	if a != j.plan.act {
		return ""
	}
	j.came = true
	return j.plan.way
}

// frame does the same for a frame of a watch.
func (j *journal) frame(kind string) way {
	j.mu.Lock()
	begun := j.begun
	j.mu.Unlock()
	if !begun {
		return ""
	}
	return j.note(kind)
}

// reached reports whether the act of the plan has come.
func (j *journal) reached() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.came
}

func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = true
}

// meets records that a write met another one.
func (j *journal) meets(kind string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.met[kind]++
}

// all returns the acts so far. Of each kind, it counts the writes that met no other one, because the number of retries
// depends on the load. A run without retries has exactly these.
func (j *journal) all() []act {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.acts), func(a act) bool { return a.nth > j.seen[a.kind]-j.met[a.kind] })
}

// wrote counts a request that could have changed something. A hub writes once a minute that it hears its clusters.
func (j *journal) wrote(kind string) {
	if strings.Contains(kind, " fleetmembers/") {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes++
}

func (j *journal) written() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writes
}

func (j *journal) breach(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.breaches = append(j.breaches, fmt.Sprintf(format, args...))
}

func (j *journal) told() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.breaches)
}

package queue

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func in(namespace, name string) Key { return Key{Cluster: "c", Namespace: namespace, Name: name} }

// parsed parses "namespace/name".
func parsed(s string) Key {
	namespace, name, _ := strings.Cut(s, "/")
	return in(namespace, name)
}

func TestLanes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		workers, express int
		// steps are words: +key is Add, -key is Done, and a key alone is the result of Get; . means that Get would
		// wait.
		steps string
	}{
		"keys of one namespace come in order":                       {9, 0, "+a/1 +a/2 +a/3 a/1 a/2 a/3 ."},
		"a key that waits is not queued twice":                      {9, 0, "+a/1 +a/1 a/1 ."},
		"a key under way is not handed out twice":                   {9, 0, "+a/1 a/1 +a/1 ."},
		"but once more when it is done, however often it was added": {9, 0, "+a/1 a/1 +a/1 +a/1 . -a/1 a/1 -a/1 ."},
		"a later namespace does not wait for an earlier one's keys": {9, 0, "+a/1 +a/2 +a/3 +b/1 a/1 b/1 a/2 a/3 ."},
		"three take turns":                                 {9, 0, "+a/1 +a/2 +b/1 +b/2 +c/1 +c/2 a/1 b/1 c/1 a/2 b/2 c/2 ."},
		"who has the fewest under way goes first":          {9, 0, "+a/1 a/1 +a/2 a/2 +b/1 b/1 +a/3 +b/2 b/2 a/3"},
		"no more than the workers":                         {2, 0, "+a/1 +b/1 +c/1 a/1 b/1 . -a/1 c/1 ."},
		"the express is for who has nothing under way":     {2, 1, "+a/1 +a/2 +a/3 a/1 a/2 . +b/1 +b/2 b/1 ."},
		"the express is bounded too":                       {1, 1, "+a/1 +a/2 +b/1 +c/1 a/1 b/1 . -b/1 c/1 ."},
		"whose last key is done may use the express again": {1, 1, "+a/1 a/1 +b/1 +b/2 b/1 . -b/1 b/2 ."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newFairQueue(tt.workers, tt.express)
			for i, step := range strings.Fields(tt.steps) {
				where := fmt.Sprintf("step %d, %s", i+1, step)
				switch {
				case step[0] == '+':
					q.Add(parsed(step[1:]))
				case step[0] == '-':
					q.Done(parsed(step[1:]))
				case step == ".":
					if _, ok := q.nextLane(time.Now()); ok {
						t.Fatalf("%s: a key is handed out", where)
					}
				default:
					if _, ok := q.nextLane(time.Now()); !ok {
						t.Fatalf("%s: no key is handed out", where)
					}
					got, _ := q.Get()
					if diff := cmp.Diff(parsed(step), got); diff != "" {
						t.Fatalf("%s: %s", where, diff)
					}
				}
			}
		})
	}
}

// In every order of events, each added key is handed out afterwards, and never twice at once. At the end the queue is
// empty.
func TestLanesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers, express := rapid.IntRange(1, 3).Draw(t, "workers"), rapid.IntRange(0, 2).Draw(t, "express")
		q := newFairQueue(workers, express)
		owed, out := map[Key]bool{}, map[Key]bool{}
		key := rapid.Custom(func(t *rapid.T) Key {
			return in(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "name"))
		})
		get := func() bool {
			if _, ok := q.nextLane(time.Now()); !ok {
				return false
			}
			k, _ := q.Get()
			if out[k] || !owed[k] {
				t.Fatalf("%v is handed out; under way: %v, owed: %v", k, out, owed)
			}
			out[k] = true
			delete(owed, k)
			return true
		}
		done := func(k Key) { q.Done(k); delete(out, k) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch k := key.Draw(t, "key"); rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				q.Add(k)
				owed[k] = true
			case 1:
				get()
			case 2:
				done(k)
			}
			if len(out) > workers+express {
				t.Fatalf("%d are under way", len(out))
			}
		}
		for len(owed)+len(out) > 0 {
			for k := range out {
				done(k)
			}
			if !get() && len(owed) > 0 {
				t.Fatalf("%v is never handed out", owed)
			}
		}
		if len(q.lanes)+len(q.waitingLanes)+len(q.keys)+q.waiting+q.underway != 0 {
			t.Fatalf("left behind: %+v", q)
		}
	})
}

func TestNothingIsHandedOutDuringAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, start := newFairQueue(2, 1), time.Now()
		q.pauseUntil(start.Add(3 * time.Second))
		q.pauseUntil(start.Add(time.Second)) // a later call never shortens a pause
		q.Add(in("a", "1"))
		q.Add(in("b", "1"))
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				if _, shutdown := q.Get(); shutdown {
					t.Error("shut down")
				}
				if d := time.Since(start); d != 3*time.Second {
					t.Errorf("handed out after %s", d)
				}
			})
		}
		workers.Wait()
	})
}

func TestAShutdownEndsAllWaiting(t *testing.T) {
	t.Parallel()
	q := newFairQueue(2, 1)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if _, shutdown := q.Get(); !shutdown {
				t.Error("a key is handed out")
			}
		})
	}
	q.ShutDown()
	workers.Wait()
	q.Add(in("a", "1"))
	if _, shutdown := q.Get(); !shutdown || !q.ShuttingDown() {
		t.Error("it goes on after the shutdown")
	}
}

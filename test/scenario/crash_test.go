package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/world"
)

// Wherever an executor dies, the next one ends the release as if nothing had been: for every write of an undisturbed release, one
// in which the executor dies right after the API server has carried out that write, and so between a route and the commit of
// its status, or between a commit and the action that it announces.
func TestACrashAfterAnyWriteIsHealed(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	c := startCrashing(t, w)

	d := aDemo(t, w)
	d.release(t, version("canary"))
	d.finish(t, 1)
	d.wantRestored(t)
	created := creates(t, d)
	kinds := c.writesOf(d.ns)
	t.Logf("an undisturbed release makes %d writes:\n%s", len(kinds), strings.Join(kinds, "\n"))

	t.Run("after", func(t *testing.T) {
		for n, kind := range kinds {
			times := count(kinds[:n+1], kind)
			t.Run(fmt.Sprintf("%s %d", kind, times), func(t *testing.T) {
				t.Parallel()
				ns := w.Namespace(t)
				c.crashAfter(ns, kind, times)
				d := aDemoIn(t, w, ns)
				d.release(t, version("canary"))
				d.finish(t, 1)
				d.wantRestored(t)
				if diff := cmp.Diff(created, creates(t, d)); diff != "" {
					t.Errorf("how often each object was created (-undisturbed +got):\n%s", diff)
				}
			})
		}
	})
	want := slices.Clone(kinds)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), c.crashedAfter()); diff != "" {
		t.Errorf("kinds of writes after which an executor died (-want +got):\n%s", diff)
	}
}

func count(list []string, want string) int {
	n := 0
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// creates counts for each object how often it was created, by anybody. A request that died with the one who asked may have created it.
func creates(t *testing.T, d *demo) map[string]int {
	t.Helper()
	writes, err := d.w.Writes(d.ns)
	if err != nil {
		t.Fatal(err)
	}
	count, doubtful := map[string]int{}, map[string]bool{}
	for _, w := range writes {
		switch object := w.Resource + "/" + w.Name; {
		case w.Verb != "create" || w.Resource == "namespaces":
		case w.Code < 300:
			count[object]++
		case w.Unanswered():
			doubtful[object] = true
		}
	}
	for object := range doubtful {
		count[object] = max(count[object], 1)
	}
	return count
}

// bareWorld is a world of the test's own with a watcher and no executor.
func bareWorld(t *testing.T) *world.World {
	t.Helper()
	w := world.Bare(t, world.Options{})
	w.Begin(t, w.RunWatcher)
	return w
}

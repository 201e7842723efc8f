package crash

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

var (
	everything = flag.Bool("crash.all", false, "play all plans, not a selection")
	show       = flag.Bool("crash.list", false, "print the plans instead of playing them")
	only       = flag.String("crash.plan", "", "play the plans given only, separated by semicolons")
	patience   = flag.Duration("crash.patience", 2*time.Minute, "how long a release may stand still; nothing waits for it to pass")
	rehearsals = flag.Int("crash.rehearsals", 6, "how many undisturbed runs there are of each release; an act counts only if all of them have it")
	atOnce     = flag.Int("crash.parallel", 16, "how many runs there are side by side; they wait most of the time")
)

// selection is how many plans are played unless all are wanted, selectionOfMeasured how many of those of an analysis.
const (
	selection           = 150
	selectionOfMeasured = 18
)

// fewest is how many plans there are at least of all releases together. With fewer of them most of what can go wrong is no longer seen, and
// to play it all proves little.
const fewest = 2000

// tally counts the releases of which there are plans, and these.
type tally struct{ releases, plans int }

// tooFew tells that there are too few plans of all releases, "" where there are enough, or not all releases are played.
func (n tally) tooFew() string {
	if whole := 1 + len(turns()) + len(verdicts()); n.releases < whole || n.plans >= fewest {
		return ""
	}
	return fmt.Sprintf("%d releases have %d plans together, where there are to be %d at least", n.releases, n.plans, fewest)
}

// known is the tally of this run.
var known struct {
	sync.Mutex
	tally
}

// attempts is how often a plan is played whose act does not come. How many words NATS is told, and how many frames a watch has, depends on
// how things fall together; each run without the act is one more undisturbed run, and looked at as such.
const attempts = 12

// Whatever goes wrong, the release ends as if nothing had.
func TestWhateverGoesWrongOnceIsHealed(t *testing.T) {
	y := newYard(t, variant{beside, approved})
	clean, acts := rehearse(t, y)
	play(t, y, clean, acts, selection)
}

// play plays the plans that there are of acts, or a selection.
func play(t *testing.T, y *yard, clean *outcome, acts []act, selection int) {
	t.Helper()
	all := plans(acts)
	list := chosen(t, all, selection)
	known.Lock()
	known.tally = tally{known.releases + 1, known.plans + len(all)}
	known.Unlock()
	fmt.Printf("%s: an undisturbed release does %d things that can go wrong (%s), in %d ways in all; %d of these are played\n", y, len(acts), sorts(acts), len(all), len(list))
	if *show {
		for _, p := range list {
			fmt.Println(p)
		}
		return
	}
	began := time.Now()
	passed := playAll(t, y, list, clean)
	fmt.Printf("%s: %d plans, %d passed, in %s\n", y, len(list), passed, time.Since(began).Round(time.Second))
}

func given(t *testing.T, text string) []plan {
	t.Helper()
	var list []plan
	for s := range strings.SplitSeq(text, ";") {
		p, err := parsePlan(strings.TrimSpace(s))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// chosen are the plans to play: those that the command line names, all of them, or a selection that is the same each time. It has
// all ways of each write, and of the rest every so many, so that each kind and each way is in it.
func chosen(t *testing.T, all []plan, selection int) []plan {
	t.Helper()
	if *only != "" {
		return given(t, *only)
	}
	if *everything || len(all) <= selection {
		return all
	}
	var list, rest []plan
	for _, p := range all {
		if p.isWrite() {
			list = append(list, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(list) > selection {
		return everySo(list, selection)
	}
	return append(list, everySo(rest, selection-len(list))...)
}

// everySo are so many of the plans, at equal distances.
func everySo(all []plan, room int) (list []plan) {
	for i, p := range all {
		if (i+1)*room/len(all) > i*room/len(all) {
			list = append(list, p)
		}
	}
	return list
}

// sorts counts acts by what they are.
func sorts(acts []act) string {
	var writes, words, frames int
	for _, a := range acts {
		switch {
		case a.isWrite():
			writes++
		case a.isWord():
			words++
		default:
			frames++
		}
	}
	return fmt.Sprintf("%d writes, %d words to NATS, %d frames of watches", writes, words, frames)
}

// rehearse plays undisturbed releases and returns one of them, and the acts that all have in common.
func rehearse(t *testing.T, y *yard) (*outcome, []act) {
	t.Helper()
	runs := make([]*outcome, *rehearsals)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range runs {
		group.Go(func() (err error) { runs[i], err = y.run(ctx, plan{}); return err })
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("an undisturbed run: %v", err)
	}
	clean := runs[0]
	for _, o := range runs {
		if wrong := o.against(clean, plan{}); wrong != "" {
			t.Fatalf("an undisturbed run: %s", wrong)
		}
	}
	acts := slices.DeleteFunc(slices.Clone(clean.acts), func(a act) bool {
		return slices.ContainsFunc(runs, func(o *outcome) bool { return !slices.Contains(o.acts, a) })
	})
	return clean, acts
}

// against tells what differs from the undisturbed run, "" for nothing.
func (o *outcome) against(clean *outcome, p plan) string {
	var wrong []string
	if len(o.broken) > 0 && !p.makesLate() {
		wrong = append(wrong, "laws were broken:\n  "+strings.Join(o.broken, "\n  "))
	}
	if diff := cmp.Diff(clean.end, o.end); diff != "" {
		wrong = append(wrong, "what is there in the end (-undisturbed +got):\n"+diff)
	}
	if diff := cmp.Diff(clean.counts, o.counts); diff != "" && p.way != late {
		wrong = append(wrong, "what was made and taken away (-undisturbed +got):\n"+diff)
	}
	if diff := cmp.Diff(clean.told, o.told); diff != "" && len(wrong) > 0 {
		wrong = append(wrong, "its transitions (-undisturbed +got):\n"+diff)
	}
	return strings.Join(wrong, "\n")
}

func playAll(t *testing.T, y *yard, list []plan, clean *outcome) (passed int) {
	t.Helper()
	var mu sync.Mutex
	done := 0
	group := errgroup.Group{}
	for _, p := range shuffled(list) {
		group.Go(func() error {
			wrong := y.playOne(t.Context(), p, clean)
			mu.Lock()
			defer mu.Unlock()
			if done++; done%100 == 0 {
				t.Logf("%d of %d plans are done", done, len(list))
			}
			if wrong == "" {
				passed++
				return nil
			}
			t.Errorf("%s\n%s\nto see it again: go test ./test/crash -run %s -crash.plan='%s'", p, wrong, t.Name(), p)
			return nil
		})
	}
	_ = group.Wait()
	return passed
}

// shuffled plays plans that are alike far from each other, in an order that is the same each time.
func shuffled(list []plan) []plan {
	const stride = 37
	var mixed []plan
	for first := range min(stride, len(list)) {
		for i := first; i < len(list); i += stride {
			mixed = append(mixed, list[i])
		}
	}
	return mixed
}

func (y *yard) playOne(ctx context.Context, p plan, clean *outcome) string {
	for range attempts {
		o, err := y.run(ctx, p)
		if err != nil {
			return err.Error()
		}
		if o.reached {
			return o.against(clean, p)
		}
		if wrong := o.against(clean, plan{}); wrong != "" {
			return "an undisturbed run: " + wrong
		}
	}
	return "what should go wrong never happened"
}

package crash

import (
	"context"
	"flag"
	"fmt"
	"math"
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
	patience   = flag.Duration("crash.patience", 10*time.Minute, "how long a release may stand still; nothing waits for it to pass")
	rehearsals = flag.Int("crash.rehearsals", 1, "how many undisturbed runs each release has; the plans follow from the first")
	atOnce     = flag.Int("crash.parallel", 16, "how many runs there are side by side; they wait most of the time")
)

// selection is the number of plans to play unless all are wanted, selectionOfMeasured the number of plans of an
// analysis.
const (
	selection           = 48
	selectionOfMeasured = 18
)

// attempts is how often a plan is played whose act does not come. The numbers of writes of a kind, of messages to NATS
// and of frames of a watch vary with the timing. A run without the act is judged as an undisturbed run. The next
// attempt takes the last act of that kind in that run.
const attempts = 6

// The release must end like an undisturbed one, regardless of the failure. The selection always has the death of an executor
// after each write of the release. Such a death is between a route and the commit of its status, or between a commit
// and the action that it announces.
func TestWhateverGoesWrongOnceIsHealed(t *testing.T) {
	y := newYard(t, variant{beside, approved})
	clean, acts := rehearse(t, y)
	play(t, y, clean, acts, selection, func(p plan) bool { return p.isWrite() && p.way == after })
}

// runner plays a release by a plan.
type runner interface {
	fmt.Stringer
	run(context.Context, plan) (*outcome, error)
	// always returns kinds of acts that each undisturbed run has, regardless of the timing.
	always() []string
}

// play plays all plans for acts, or a selection. The selection has the plans for which always, if not nil, is true, and
// a number of others.
func play(t *testing.T, y runner, clean *outcome, acts []act, selection int, always func(plan) bool) {
	t.Helper()
	if missing := missing(y.always(), acts); len(missing) > 0 && *only == "" {
		t.Errorf("an undisturbed release of %s does none of %q", y, missing)
	}
	all := plans(acts)
	list := chosen(t, all, selection, always)
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

// chosen returns the plans to play: the plans that the command line names, all of them, or a selection.
func chosen(t *testing.T, all []plan, selection int, always func(plan) bool) []plan {
	t.Helper()
	if *only != "" {
		return given(t, *only)
	}
	if *everything || len(all) <= selection {
		return all
	}
	var fixed, others []plan
	for _, p := range all {
		if always != nil && always(p) {
			fixed = append(fixed, p)
		} else {
			others = append(others, p)
		}
	}
	return append(fixed, sample(others, selection)...)
}

// sample returns a number of the plans, the same ones each time. Half of them are about writes, which are few, and the
// others about other acts.
func sample(all []plan, room int) []plan {
	var writes, others []plan
	for _, p := range all {
		if p.isWrite() {
			writes = append(writes, p)
		} else {
			others = append(others, p)
		}
	}
	half := min(len(writes), (room+1)/2)
	return append(everySo(writes, half), everySo(others, room-half)...)
}

// everySo returns a number of the plans: one from each of as many equal parts, and each time from another position in
// it. Equal distances would always select the same way, because acts have the same number of ways.
func everySo(all []plan, room int) (list []plan) {
	if room >= len(all) {
		return all
	}
	for i := range room {
		_, place := math.Modf(float64(i+1) / math.Phi)
		list = append(list, all[int((float64(i)+place)*float64(len(all))/float64(room))])
	}
	return list
}

// sorts counts acts by their sort.
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

// rehearse plays undisturbed releases, which must all end alike. It returns one of them and its acts that can go wrong.
func rehearse(t *testing.T, y runner) (*outcome, []act) {
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
	return clean, clean.acts
}

// against returns the differences from the undisturbed run, "" for none.
func (o *outcome) against(clean *outcome, p plan) string {
	var wrong []string
	if len(o.broken) > 0 && !p.makesLate() {
		wrong = append(wrong, "laws were broken:\n  "+strings.Join(o.broken, "\n  "))
	}
	want, got := clean.end, o.end
	if p.makesLate() { // the removal of a route is one more transition
		want, got = untold(want), untold(got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
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

// playAll plays plans in parallel and returns how many passed. A plan whose act never came fails only if a release
// always has acts of that kind, and no run had one.
func playAll(t *testing.T, y runner, list []plan, clean *outcome) (passed int) {
	t.Helper()
	var mu sync.Mutex
	done, reached := 0, map[string]bool{}
	var unreached []plan
	group := errgroup.Group{}
	for _, p := range shuffled(list) {
		group.Go(func() error {
			played, wrong := playOne(t.Context(), y, p, clean)
			mu.Lock()
			defer mu.Unlock()
			if done++; done%100 == 0 {
				t.Logf("%d of %d plans are done", done, len(list))
			}
			reached[played.kind] = reached[played.kind] || played.come
			switch {
			case wrong != "":
				t.Errorf("%s\n%s\nto see it again: go test ./test/crash -run %s -crash.plan='%s'", played.plan, wrong, t.Name(), played.plan)
			case played.come:
				passed++
			default:
				unreached = append(unreached, p)
			}
			return nil
		})
	}
	_ = group.Wait()
	for _, p := range unreached {
		if reached[p.kind] || !slices.Contains(y.always(), p.kind) {
			t.Logf("%s: none of %d runs came to it", p, attempts)
		} else {
			t.Errorf("%s: %s, in %d runs\nto see it again: go test ./test/crash -run %s -crash.plan='%s'", p, neverCame, attempts, t.Name(), p)
		}
	}
	return passed
}

// shuffled plays similar plans far from each other, in an order that is the same each time.
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

// neverCame is the message that no release does the act of a plan. The mutants expect these words.
const neverCame = "no release did anything of this kind"

// played is a plan as it was finally played. come reports that its act came.
type played struct {
	plan
	come bool
}

// playOne plays a plan until its act comes, and returns the problem, "" for none.
func playOne(ctx context.Context, y runner, p plan, clean *outcome) (_ played, wrong string) {
	for range attempts {
		o, err := y.run(ctx, p)
		if err != nil {
			return played{p, false}, err.Error()
		}
		if o.reached {
			return played{p, true}, o.against(clean, p)
		}
		if wrong := o.against(clean, plan{}); wrong != "" {
			return played{p, false}, "an undisturbed run: " + wrong
		}
		p = p.within(o.acts)
	}
	return played{p, false}, ""
}

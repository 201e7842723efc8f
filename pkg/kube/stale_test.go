package kube_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

// frost delays the events of watches while it is on.
type frost struct {
	mu   sync.Mutex
	thaw chan struct{} // nil while frost is off
}

func (f *frost) on() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thaw = make(chan struct{})
}

func (f *frost) off() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thaw != nil {
		close(f.thaw)
		f.thaw = nil
	}
}

func (f *frost) wait() {
	f.mu.Lock()
	thaw := f.thaw
	f.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

type frozen struct {
	io.ReadCloser
	by *frost
}

func (b frozen) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.by.wait()
	return n, err
}

// watcher is a client whose watches can be delayed.
type watcher struct {
	*kube.Client
	frost
	moved chan types.NamespacedName
	// lists counts lists of ReplicaSets.
	lists atomic.Int32
}

func (w *world) watching() *watcher {
	w.t.Helper()
	k := &watcher{moved: make(chan types.NamespacedName, 1000)}
	k.Client = clientThrough(w.t, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		watches := r.URL.Query().Has("watch")
		if !watches && strings.HasSuffix(r.URL.Path, "/replicasets") {
			k.lists.Add(1)
		}
		response, err := next.RoundTrip(r)
		if err == nil && watches {
			response.Body = frozen{response.Body, &k.frost}
		}
		return response, err
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Start(ctx, func(name types.NamespacedName) { k.moved <- name }) }()
	w.t.Cleanup(func() { k.off(); cancel(); <-done })
	k.WaitForCacheSync(w.t.Context())
	return k
}

// sees waits until the watches of k show a state.
func (w *world) sees(k *watcher, what string, is func(rollout.Seen) bool) {
	w.t.Helper()
	w.eventually("the watches show "+what, func() bool {
		s, ok := k.ObserveCached(w.key("web"))
		if !ok { // the first observation starts the watch of the gateway kind
			_, _ = k.Observe(w.t.Context(), w.key("web"))
			return false
		}
		return is(s.Seen)
	})
}

// atRest creates the usual objects and waits until the Rollout is idle.
func (w *world) atRest() {
	w.t.Helper()
	w.settled()
	w.eventually("the Rollout is at rest", func() bool {
		s := w.observe("web")
		d := planner.Plan(s.Seen, time.Now())
		if err := w.step(s, d); err != nil && !apiclient.IsConflict(err) {
			w.t.Fatal(err)
		}
		return len(d.Actions) == 0 && s.Seen.Workload.Adopted && s.Seen.Status.Phase == api.PhaseHealthy
	})
}

func planned(s *kube.Snapshot) (d rollout.Decision, raises, restores bool) {
	d = planner.Plan(s.Seen, time.Now())
	for _, a := range d.Actions {
		_, raise := a.(rollout.ApplyRoute)
		_, restore := a.(rollout.RestoreRoute)
		raises, restores = raises || raise, restores || restore
	}
	return d, raises, restores
}

func TestNothingIsRaisedOnTheWordOfAWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	k := w.watching()
	w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	// The release is about to raise its route: the pods of the second step are ready.
	w.eventually("the second step may be routed", func() bool {
		s := w.observe("web")
		d, raises, _ := planned(s)
		if !raises {
			_ = w.step(s, d)
		}
		return raises
	})
	w.sees(k, "the same", func(seen rollout.Seen) bool { _, raises, _ := planned(&kube.Snapshot{Seen: seen}); return raises })

	k.on()
	w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p", heldImage("1"))
	s, err := k.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	stale, raises, _ := planned(s)
	if !raises {
		t.Fatalf("the watches are not behind: %s", stale.Actions)
	}
	moved, err := k.ConfirmDecision(t.Context(), s, stale)
	if err != nil || !moved {
		t.Fatalf("a rollback that the watches have not shown is not found: %t, %v", moved, err)
	}
	if d, raises, restores := planned(s); raises || !restores {
		t.Errorf("after the rollback it goes on with %s", d.Actions)
	}
	again, err := k.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	if d, raises, _ := planned(again); raises {
		t.Errorf("the next look has forgotten what was read live, and goes on with %s", d.Actions)
	}
}

// A process was stopped between a commit and the create of the canary, and another executor has gone on. When the
// process continues, it reads the other objects that the canary depends on. That read must not replace a read of the
// Rollout.
func TestWhatWasCommittedLongAgoIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p", heldImage("2"))
	k := w.watching()
	w.sees(k, "the change", func(seen rollout.Seen) bool { return seen.Workload != nil && seen.Workload.Held })
	s, err := k.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	var next rollout.Decision
	creates := func() bool {
		next = planner.Plan(s.Seen, time.Now())
		return slices.ContainsFunc(next.Actions, func(a rollout.Action) bool { _, is := a.(rollout.CreateCanary); return is })
	}
	w.eventually("the next thing to do is to make the canary", func() bool {
		if creates() {
			return true
		}
		err := w.stepBy(k.Client, s, next)
		if apiclient.IsConflict(err) {
			err = k.ObserveLiveInto(t.Context(), s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return false
	})
	s.Later(time.Minute)
	w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"sluice":{"pauseSeq":7}}}`)
	if moved, err := k.ConfirmDecision(t.Context(), s, next); err != nil || !moved {
		t.Errorf("that somebody has gone on is not found: %t, %v", moved, err)
	}
}

// An object that a Rollout names may exist long before the watches show it. A release must not be held for it.
func TestNothingIsMissingOnTheWordOfAWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	k := w.watching()
	w.sees(k, "the route", func(seen rollout.Seen) bool { return !seen.Routes[0].Missing })
	w.kubectl("", "delete", "virtualservice,service,deployment", "web")
	w.sees(k, "that nothing is left", func(seen rollout.Seen) bool {
		return seen.Workload == nil && seen.Backends[0].StableService == nil && seen.Routes[0].Missing
	})

	k.on()
	w.apply(deployment, service, virtualService)
	s, err := k.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Seen.Workload == nil || s.Seen.Backends[0].StableService == nil || s.Seen.Routes[0].Missing {
		t.Errorf("what the watches have not shown is not seen: %+v", s.Seen)
	}
}

func TestOwnWritesAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	k := w.watching()
	w.sees(k, "the workload as it is", func(seen rollout.Seen) bool { return seen.Workload != nil && seen.Backends[0].StableService != nil })
	look := func() *kube.Snapshot {
		t.Helper()
		s, err := k.Observe(t.Context(), w.key("web"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, err := k.ObserveLive(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	k.on()
	do := func(a rollout.Action) {
		t.Helper()
		if err := k.ApplyAction(t.Context(), s, a); err != nil {
			t.Fatal(err)
		}
	}
	do(rollout.PinService{Name: "web", Hash: "h"})
	do(rollout.CreateCanary{Name: "web-canary", Replicas: 1, Epoch: 1, Revision: "r"})
	do(rollout.CreateCanaryService{Name: "web-canary", Stable: "web", Hash: "h", Epoch: 1})
	seen := look().Seen
	if seen.Backends[0].StableService.Hash != "h" || seen.Canary == nil || seen.Backends[0].CanaryService == nil {
		t.Errorf("own writes are not seen: %+v", seen)
	}
	do(rollout.DeleteCanaryService{Name: "web-canary"})
	do(rollout.UnpinService{Name: "web"})
	if seen := look().Seen; seen.Backends[0].CanaryService != nil || seen.Backends[0].StableService.Hash != "" {
		t.Errorf("own deletes are not seen: %+v", seen)
	}
	k.off()
	w.sees(k, "it all", func(seen rollout.Seen) bool {
		return seen.Canary != nil && seen.Backends[0].CanaryService == nil && seen.Backends[0].StableService.Hash == ""
	})
}

func TestALateChangeIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	k := w.watching()
	w.sees(k, "the workload", func(seen rollout.Seen) bool { return seen.Workload != nil })
	w.changesLate(k, func() { w.kubectl("", "label", "service", "web", "late=true") })
}

// A script creates an object of another kind for the gateway object that the Rollout names. A user deletes it.
func TestALateChangeBesideAGatewayObjectIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment, service, `
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: web}
spec: {routes: [{match: Host(`+"`a`"+`), kind: Rule, services: [{name: web, port: 80}]}]}`,
		strings.NewReplacer("networking.istio.io/v1", "traefik.io/v1alpha1", "VirtualService", "IngressRoute", "traffic: 20%", "mirror: {traffic: 10%}").Replace(canaryRollout))
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=strategic", "-p", heldImage("2"))
	w.drive("web", rollout.StatePaused)
	k := w.watching()
	w.sees(k, "what was made", func(seen rollout.Seen) bool { return seen.Routes[0].Steps[1].Applied })
	w.changesLate(k, func() { w.kubectl("", "delete", "traefikservices", "--all") })
}

// changesLate makes a run of k end before its watches show a change, and waits until k gets notice of the change.
func (w *world) changesLate(k *watcher, change func()) {
	w.t.Helper()
	k.on()
	change()
	s, err := k.Observe(w.t.Context(), w.key("web"))
	if err != nil {
		w.t.Fatal(err)
	}
	k.TrackAfterRun(s)
	if k.HasChanged(w.key("web")) {
		w.t.Error("a watch that is behind shows what it cannot know")
	}
	k.off()
	for end := time.After(patience); !k.HasChanged(w.key("web")); {
		select {
		case <-k.moved:
		case <-end:
			w.t.Fatal("nobody is told that the change has arrived")
		}
	}
}

func TestACommitOfAnotherExecutorIsToldFromAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	k := w.watching()
	w.sees(k, "the workload", func(seen rollout.Seen) bool { return seen.Workload != nil })
	s, err := k.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	k.TrackAfterRun(s)
	w.kubectl("", "annotate", "rollout", "web", "edited=true")
	w.eventually("the watch shows the edit", func() bool { return k.HasChanged(w.key("web")) })
	if k.IsSuperseded(w.key("web")) {
		t.Error("an edit is taken for a commit")
	}
	other := w.observe("web")
	next := *other.Seen.Status.DeepCopy()
	next.Sluice.TransitionSeq++
	if err := w.client.CommitStatus(t.Context(), other, next); err != nil {
		t.Fatal(err)
	}
	w.eventually("the commit of the other is known", func() bool { return k.IsSuperseded(w.key("web")) })
	k.TrackAfterRun(w.observe("web"))
	w.eventually("a run of its own counts", func() bool { return !k.IsSuperseded(w.key("web")) })
}

func TestNothingIsReadWhileNothingHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atRest()
	k := w.watching()
	w.sees(k, "the workload", func(seen rollout.Seen) bool { return seen.Workload != nil && seen.Workload.Adopted })
	_, before := k.ReadCounts()
	for range 3 {
		if _, err := k.Observe(t.Context(), w.key("web")); err != nil {
			t.Fatal(err)
		}
	}
	if _, after := k.ReadCounts(); after != before {
		t.Errorf("%d reads went to the API server", after-before)
	}
}

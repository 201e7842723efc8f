package kill

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// patience bounds all releases of a test together. No test waits for it to pass.
const patience = 15 * time.Minute

// pause is the minimum time that an executor lives before the next one is killed.
const pause = 350 * time.Millisecond

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	routes      = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
)

func TestTwoExecutorsKilledInTurnsFinishAHundredReleases(t *testing.T) {
	ctx, w, p, f := begin(t, 10, 10)

	calm := p.BeginTorment(t, pause)
	f.follow(ctx, ready)
	began := time.Now()
	f.change(ctx, "app:2")
	f.follow(ctx, finished(1))
	took := time.Since(began)
	suffered := calm()
	noneLeft(t, p)
	t.Logf("%d releases took %s; executors were killed %d times and frozen %d times", f.size(), took.Round(100*time.Millisecond), suffered.Kills, suffered.Freezes)

	f.lawful(w)
	f.nothingLeft(ctx)
}

// begin creates a world with a watcher and applications whose releases have not begun. Executors are processes of the
// program.
func begin(t *testing.T, namespaces, each int) (context.Context, *world.World, world.Program, *applications) {
	t.Helper()
	w := world.Bare(t, world.Options{})
	w.Begin(t, w.RunWatcher)
	p, err := w.Program(t.TempDir()) // the build takes long with an empty cache
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	f := newApplications(t, w, namespaces, each)
	f.create(ctx, w)
	return ctx, w, p, f
}

func noneLeft(t *testing.T, p world.Program) {
	t.Helper()
	alive, err := p.Left()
	if err != nil || len(alive) > 0 {
		t.Errorf("executors that are still alive: %v %v", alive, err)
	}
}

// lawful checks the API server's audit log for breaches of the laws.
func (f *applications) lawful(w *world.World) {
	f.t.Helper()
	total, unanswered := 0, 0
	for i := range f.namespaces {
		namespace := fmt.Sprintf("apps-%d", i)
		writes, err := w.Writes(namespace)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, write := range writes {
			total++
			if write.Unanswered() {
				unanswered++
			}
		}
		for _, breach := range slices.Concat(world.Breaches(writes), world.Overexposed(writes), world.StableServes(writes)) {
			f.t.Errorf("%s: %s", namespace, breach)
			world.Tell(f.t, about(breach, writes))
		}
	}
	f.t.Logf("of %d writes %d were never answered", total, unanswered)
}

// about returns the writes to objects of the application that a breach names, all of them if it names none.
func about(breach string, writes []world.Write) []world.Write {
	app := regexp.MustCompile(`\bapp-\d+\b`).FindString(breach)
	return slices.DeleteFunc(slices.Clone(writes), func(w world.Write) bool { return app != "" && w.Name != app && !strings.HasPrefix(w.Name, app+"-") })
}

// ready is the goal that the first version serves and the next one will be released.
func ready(r *api.Rollout) bool {
	return world.Healthy(r) && r.Status.CanaryStatus.StableRevision != ""
}

// finished is the goal that a number of releases was made and that the last one has succeeded.
func finished(releases int64) world.Goal {
	return func(r *api.Rollout) bool {
		c := world.Condition(r, api.ConditionSucceeded)
		return world.Healthy(r) && r.Status.Sluice.Epoch >= releases && c != nil && c.Status == "True"
	}
}

// applications are in a number of namespaces, the same number in each.
type applications struct {
	client           dynamic.Interface
	t                *testing.T
	namespaces, each int
	status           map[string]*api.Rollout
}

func newApplications(t *testing.T, w *world.World, namespaces, each int) *applications {
	t.Helper()
	client, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &applications{client: client, t: t, namespaces: namespaces, each: each, status: map[string]*api.Rollout{}}
}

// size is the number of Rollouts.
func (f *applications) size() int { return f.namespaces * f.each }

// all calls work for each release, some at a time.
func (f *applications) all(ctx context.Context, work func(ctx context.Context, namespace, name string) error) {
	f.t.Helper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range f.size() {
		group.Go(func() error { return work(ctx, fmt.Sprintf("apps-%d", i/f.each), fmt.Sprintf("app-%d", i%f.each)) })
	}
	if err := group.Wait(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *applications) create(ctx context.Context, w *world.World) {
	f.t.Helper()
	for i := range f.namespaces {
		w.Do(f.t, "create", "namespace", fmt.Sprintf("apps-%d", i))
	}
	f.all(ctx, func(ctx context.Context, namespace, name string) error {
		app := world.App{Name: name, Replicas: 1, Steps: []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 1, Weight: 60}}}
		return app.Create(ctx, f.client, namespace)
	})
}

// change gives every Deployment another version.
func (f *applications) change(ctx context.Context, image string) {
	f.t.Helper()
	f.all(ctx, func(ctx context.Context, namespace, name string) error {
		_, err := f.client.Resource(deployments).Namespace(namespace).Patch(ctx, name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":%q}]}}}}`, image), metav1.PatchOptions{})
		return err
	})
}

// follow approves each pause as soon as it sees it, until all Rollouts have reached a goal.
func (f *applications) follow(ctx context.Context, goal world.Goal) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := controlplane.Watch(ctx, f.client.Resource(api.RolloutResource()), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	defer events.Stop()
	there := map[string]bool{}
	for e := range events.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		r := &api.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
			f.t.Fatal(err)
		}
		key := r.Namespace + "/" + r.Name
		f.status[key] = r
		if r.Status.CurrentStepState == api.StepPaused && r.Status.Phase == api.PhaseProgressing {
			f.approve(ctx, r)
		}
		if goal(r) {
			there[key] = true
		}
		if len(there) == f.size() {
			return
		}
	}
	for key, r := range f.status {
		if !there[key] {
			f.t.Errorf("%s did not get there: %s, %s", key, r.Status.Phase, r.Status.Message)
		}
	}
	f.t.FailNow()
}

func (f *applications) approve(ctx context.Context, r *api.Rollout) {
	f.t.Helper()
	_, err := f.client.Resource(api.RolloutResource()).Namespace(r.Namespace).Patch(ctx, r.Name, types.MergePatchType,
		[]byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`), metav1.PatchOptions{}, "status")
	// The release may have moved on meanwhile. Then the API server refuses the approval, which was not needed.
	if err != nil && !strings.Contains(err.Error(), "StepPaused") {
		f.t.Error(err)
	}
}

// nothingLeft checks that only objects of users exist, in the state in which users created them.
func (f *applications) nothingLeft(ctx context.Context) {
	f.t.Helper()
	for _, kind := range []schema.GroupVersionResource{{Version: "v1", Resource: "services"}, deployments, routes} {
		list, err := f.client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		for _, u := range list.Items {
			f.clean(kind.Resource, &u)
		}
	}
}

func (f *applications) clean(kind string, u *unstructured.Unstructured) {
	f.t.Helper()
	if strings.HasSuffix(u.GetName(), api.SuffixCanary) {
		f.t.Errorf("%s %s/%s is left over", kind, u.GetNamespace(), u.GetName())
	}
	for _, mark := range []string{api.AnnotationReleases, api.AnnotationRendered, api.AnnotationOriginalSpec, api.AnnotationInProgressing} {
		if _, left := u.GetAnnotations()[mark]; left {
			f.t.Errorf("%s %s/%s still carries %s", kind, u.GetNamespace(), u.GetName(), mark)
		}
	}
	if selector, _, _ := unstructured.NestedString(u.Object, "spec", "selector", "pod-template-hash"); selector != "" {
		f.t.Errorf("%s %s/%s still selects one revision", kind, u.GetNamespace(), u.GetName())
	}
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
		f.t.Errorf("%s %s/%s is still paused", kind, u.GetNamespace(), u.GetName())
	}
}

package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// tormented returns a world whose executors are killed and frozen until calm is called. They have only their own
// rights.
func tormented(t *testing.T, o world.Options) (w *world.World, calm func() world.Torment) {
	t.Helper()
	w = world.Bare(t, o)
	w.Begin(t, w.RunWatcher)
	p, err := w.Program(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w, p.BeginTorment(t, 350*time.Millisecond)
}

// Executors with only their own rights are killed and frozen while releases create Ingresses and delete them. Some
// releases are aborted. Each release ends, and no created object and no order is left.
func TestExecutorsKilledWhileTheyMakeIngressesLeaveNothing(t *testing.T) {
	t.Parallel()
	w, calm := tormented(t, world.Options{})

	const many = 8
	shops := make([]*shop, many)
	for i := range shops {
		s := &shop{T: t, w: w, ns: fmt.Sprintf("killed-%d", i), kind: "ingress"}
		w.Do(t, "create", "namespace", s.ns)
		const steps = `[{replicas: 50%, traffic: 20%, matches: [{headers: [{name: user, value: beta}]}]}, {replicas: 50%, traffic: 40%}]`
		w.Apply(t, s.ns, strings.NewReplacer("ANNOTATIONS", fmt.Sprintf("%s: \"%d\", ", albOrder, 100+i), "RULES", ingressRules, "STEPS", steps, "CLASS", "aliyun-alb").Replace(ingressApp))
		shops[i] = s
	}
	for _, s := range shops {
		s.ready()
	}
	var all sync.WaitGroup
	for i, s := range shops {
		all.Go(func() {
			s.release("web:2")
			s.await(world.PausedAt(1))
			w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			if i%2 == 0 {
				s.release("web:1")
			} else {
				w.Approve(t, s.ns, "web")
			}
			s.await(world.Healthy)
		})
	}
	all.Wait()
	suffered := calm()
	t.Logf("executors were killed %d times and frozen %d times", suffered.Kills, suffered.Freezes)

	for _, s := range shops {
		if diff := cmp.Diff([]string{"web"}, s.ingresses()); diff != "" {
			t.Errorf("the Ingresses of %s (-want +got):\n%s", s.ns, diff)
		}
		s.wantRestored(nil)
	}
	held := w.Get(t, api.DefaultNamespace, "configmap", "sluice-orders-edge")
	data, _, _ := unstructured.NestedStringMap(held.Object, "data")
	var still []string
	for number, by := range data {
		still = append(still, number+" "+by)
	}
	if slices.Sort(still); len(still) > 0 {
		t.Errorf("some are still held: %v", still)
	}
}

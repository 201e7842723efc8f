package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
)

const twoVirtualServices = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: shop}
spec: {hosts: [a.example.com], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: b, namespace: shop}
spec: {hosts: [b.example.com], http: [{route: [{destination: {host: web}}]}]}
`

// If one route cannot be restored, the other routes do not stay on the canary: a plan tries to restore them, as the executor does.
func TestAPlanRestoresTheOtherRoutesWhenOneFails(t *testing.T) {
	t.Parallel()
	const refs = "{apiVersion: networking.istio.io/v1, kind: VirtualService, name: a}, {apiVersion: networking.istio.io/v1, kind: VirtualService, name: b}"
	all, err := objectsIn([]byte(strings.Replace(shop, "REFS", refs, 1) + twoVirtualServices))
	if err != nil {
		t.Fatal(err)
	}
	p := &simulation{Options: of(t, all), now: noon}
	p.store = newStore(func() time.Time { return p.now })
	if err := p.buildServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	var restored []string
	failure, apply := errors.New("no answer"), p.reconciler.Apply
	p.reconciler.Apply = func(ctx context.Context, snap *kube.Snapshot, action rollout.Action) error {
		if restore, is := action.(rollout.RestoreRoute); is {
			if restored = append(restored, restore.Object.Name); len(restored) == 1 {
				return failure
			}
		}
		return apply(ctx, snap, action)
	}
	if err := p.playRelease(t.Context()); !errors.Is(err, failure) {
		t.Fatalf("the plan ended in %v", err)
	}
	if diff := cmp.Diff([]string{"b", "a"}, restored); diff != "" {
		t.Errorf("routes that were to be restored (-want +got):\n%s", diff)
	}
}

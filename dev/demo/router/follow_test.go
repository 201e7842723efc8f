package router

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/test/controlplane"
)

func TestTheRouterFollowsTheVirtualServiceOfACluster(t *testing.T) {
	t.Parallel()
	istio, err := controlplane.IstioCRDs()
	if err != nil {
		t.Fatal(err)
	}
	cluster := controlplane.ForTest(t, controlplane.Options{Nodes: 1, CRDs: []string{istio}})
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, _ := routing(t)
	ended := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	go func() { ended <- r.Follow(following, client, "default", "shop") }()
	routes := client.Resource(VirtualServices()).Namespace("default")
	vs := object(t, `{hosts: ["*"], `+split+`}`)
	vs.SetAPIVersion("networking.istio.io/v1")
	vs.SetKind("VirtualService")
	is := func(text string) {
		t.Helper()
		if _, _, err := r.Await(ctx, func(t Table) bool { return t.String() == text }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := routes.Create(ctx, vs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("shop 80%, shop-canary 20%")
	if _, err := routes.Patch(ctx, "shop", types.MergePatchType, []byte(`{"spec":{"http":[{"route":[{"destination":{"host":"shop"}}]}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	is("shop 100%")
	if err := routes.Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		r.mu.Lock()
		gone, changed := r.problem != nil, r.changed
		r.mu.Unlock()
		if gone {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the router routes on by a VirtualService that was deleted")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

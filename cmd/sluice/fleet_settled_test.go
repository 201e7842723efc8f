package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// The hub writes the status of a FleetRollout and its FleetTargets one after the other. A command reads in between, and shows what the hub has decided.
func TestACommandShowsWhatTheHubHasDecided(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	for name, c := range map[string]struct{ counted, written string }{
		"the FleetTarget is late": {counted: "Completed", written: "Soaking"},
		"the counts are late":     {counted: "Soaking", written: "Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := controlplane.NamespaceFor(t)
			kubectl(t, cluster, "", "create", "namespace", namespace)
			apply(t, cluster, fmt.Sprintf(givenFleet, namespace))
			client, err := dynamic.NewForConfig(cluster.Config)
			if err != nil {
				t.Fatal(err)
			}
			rollouts, targets := client.Resource(api.FleetRolloutResource()).Namespace(namespace), client.Resource(api.FleetTargetResource()).Namespace(namespace)
			count := func(phase string) {
				t.Helper()
				status := strings.Replace(fmt.Sprintf(givenFleetStatus, 7, 3), `"counts":{"Completed":1}`, fmt.Sprintf(`"counts":{"Completed":null,"Soaking":null,%q:1}`, phase), 1)
				if _, err := rollouts.Patch(t.Context(), "checkout", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
					t.Error(err)
				}
			}
			count(c.counted)
			r, err := hub{objects: client, namespace: namespace}.readFleetRollout(t.Context(), "checkout")
			if err != nil {
				t.Fatal(err)
			}
			apply(t, cluster, fmt.Sprintf(`{apiVersion: sluice.dev/v1alpha1, kind: FleetTarget, metadata: {name: checkout.eu1, namespace: %s, labels: {sluice.dev/fleet-rollout: checkout},
				ownerReferences: [{apiVersion: sluice.dev/v1alpha1, kind: FleetRollout, name: checkout, uid: %s, controller: true}]},
				spec: {cluster: eu1, permit: {epoch: 7, seq: 1, verb: Release}}, status: {phase: %s, wave: 1}}`, namespace, r.UID, c.written))

			// The other write comes when the command has read the FleetTargets once.
			var once sync.Once
			config := rest.CopyConfig(cluster.Config)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(request *http.Request) (*http.Response, error) {
					response, err := next.RoundTrip(request)
					if strings.HasSuffix(request.URL.Path, "/fleettargets") {
						once.Do(func() {
							count("Completed")
							if _, err := targets.Patch(t.Context(), "checkout.eu1", types.MergePatchType, []byte(`{"status":{"phase":"Completed"}}`), metav1.PatchOptions{}); err != nil {
								t.Error(err)
							}
						})
					}
					return response, err
				})
			})
			watched, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			v := hub{objects: watched, namespace: namespace}.readSettledView(t.Context(), r)
			clusters := fleetview.ReadClusters(v) // other tests have FleetMembers, too
			if len(clusters) == 0 || clusters[0].Name != "eu1" || clusters[0].Phase != api.FleetTargetCompleted || v.Rollout.Status.Counts[api.FleetTargetCompleted] != 1 || len(v.Unread) > 0 {
				t.Errorf("it shows %+v, counts %v and says %q", clusters, v.Rollout.Status.Counts, v.Unread)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

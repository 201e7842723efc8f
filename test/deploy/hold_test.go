package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sluicedeploy "sluice.dev/sluice/deploy"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// asked describes the writes about which the API server asks a policy or a webhook: their rules, and the labels of
// their objects.
type asked struct {
	name      string
	resources []string
	objects   any
}

// asks returns the rules of all policies and webhooks in these manifests.
func asks(t *testing.T, stream []byte) (all []asked) {
	t.Helper()
	list := world.ReadManifests(t, stream)
	for _, key := range slices.Sorted(maps.Keys(list)) {
		kind, _ := list[key]["kind"].(string)
		if strings.HasSuffix(kind, "AdmissionPolicy") {
			match, _, _ := unstructured.NestedMap(list[key], "spec", "matchConstraints")
			all = append(all, asked{name: key, resources: resources(match["resourceRules"]), objects: match["objectSelector"]})
		}
		webhooks, _, _ := unstructured.NestedSlice(list[key], "webhooks")
		for _, w := range webhooks {
			webhook, _ := w.(map[string]any)
			all = append(all, asked{name: key, resources: resources(webhook["rules"]), objects: webhook["objectSelector"]})
		}
	}
	return all
}

// resources returns the resources in rules, with their groups.
func resources(rules any) (list []string) {
	all, _ := rules.([]any)
	for _, r := range all {
		rule, _ := r.(map[string]any)
		groups, _ := rule["apiGroups"].([]any)
		named, _ := rule["resources"].([]any)
		for _, group := range groups {
			for _, resource := range named {
				list = append(list, resource.(string)+"."+group.(string))
			}
		}
	}
	return list
}

// The API server asks only about workloads that Sluice has adopted, including DaemonSets, with every way of holding
// them. The test checks the manifests that are printed for a cluster.
func TestOnlyAdoptedWorkloadsAreAskedAbout(t *testing.T) {
	t.Parallel()
	adopted := map[string]any{"matchExpressions": []any{map[string]any{"key": api.LabelWorkloadType, "operator": "Exists"}}}
	for way, want := range map[string]struct {
		part     []string
		policies int
	}{"by policies": {nil, 8}, "by the webhook": {[]string{"webhook"}, 1}} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			printed, err := sluicedeploy.Manifests(api.DefaultInstallation(), want.part...)
			if err != nil {
				t.Fatal(err)
			}
			found, daemons := 0, 0
			for _, a := range asks(t, printed) {
				if slices.Equal(a.resources, []string{"rollouts.rollouts.kruise.io"}) || slices.Contains(a.resources, "rollouts/status.rollouts.kruise.io") ||
					strings.HasSuffix(a.resources[0], "."+api.GroupSluice) {
					continue
				}
				found++
				if slices.Contains(a.resources, "daemonsets.apps") || slices.Contains(a.resources, "*.*") {
					daemons++
				}
				if diff := cmp.Diff(any(adopted), a.objects); diff != "" {
					t.Errorf("%s asks about %s of others too (-want +got):\n%s", a.name, a.resources, diff)
				}
			}
			if found != want.policies || daemons == 0 {
				t.Errorf("%d of %d policies and webhooks about workloads were found, %d about DaemonSets", found, want.policies, daemons)
			}
		})
	}
}

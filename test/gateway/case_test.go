package gateway

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/test/world"
)

// A real API server that refuses unknown fields checks the output of a script against the schema and the rules of its
// kind.
func TestTheAPIServerTakesWhatTheScriptsMake(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	ns := w.Namespace(t)
	j := aJudge(t, w.Config, ns)
	all, err := cases.LoadAll(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.Path, func(t *testing.T) {
			t.Parallel()
			all := append([]map[string]any{c.Original}, c.Expected...)
			for i, object := range slices.Concat(all, slices.Concat(c.Created...)) {
				if err := j.try(t.Context(), object); err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
}

// It also checks the canary Ingresses of a release for the cases of each class.
func TestTheAPIServerTakesTheCanaryIngressesOfEachClass(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	j := aJudge(t, w.Config, w.Namespace(t))
	all, err := cases.LoadIngressCases(luaconfiguration.FS)
	if err != nil {
		t.Fatal(err)
	}
	library := script.NewLibrary(luaconfiguration.FS, "")
	for _, c := range all {
		t.Run(c.Path, func(t *testing.T) {
			t.Parallel()
			source, err := c.Source(library)
			if err != nil {
				t.Fatal(err)
			}
			if err := j.try(t.Context(), c.Original); err != nil {
				t.Errorf("the Ingress: %v", err)
			}
			render, made := traffic.IngressScript(t.Context(), source, nil), 0
			for i, in := range c.Steps {
				out, err := render(in)
				if (err != nil) != (c.Refused != "") {
					t.Fatalf("step %d: %v", i+1, err)
				}
				for _, object := range out.Create {
					made++
					if err := j.try(t.Context(), numbered(object)); err != nil {
						t.Errorf("step %d: %v", i+1, err)
					}
				}
			}
			if made == 0 && c.Refused == "" {
				t.Error("no step makes a canary Ingress")
			}
		})
	}
}

// numbered gives an object an order, if its class needs one.
func numbered(object map[string]any) map[string]any {
	u := &unstructured.Unstructured{Object: object}
	if annotation, numbers := traffic.NumberNeeded(u); annotation != "" {
		u = traffic.WithNumber(u, annotation, numbers.Max)
	}
	return u.Object
}

// judge is an API server that checks objects of a namespace, or of none if their kind has none.
type judge struct {
	client dynamic.Interface
	kinds  meta.RESTMapper
	ns     string
}

func aJudge(t *testing.T, config *rest.Config, ns string) judge {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(served)
	if err != nil {
		t.Fatal(err)
	}
	return judge{client, restmapper.NewDiscoveryRESTMapper(groups), ns}
}

// try lets the API server check an object without storing it.
func (j judge) try(ctx context.Context, object map[string]any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		return err
	}
	kind := u.GroupVersionKind()
	mapping, err := j.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	u.SetNamespace("")
	of := dynamic.ResourceInterface(j.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		u.SetNamespace(j.ns)
		of = j.client.Resource(mapping.Resource).Namespace(j.ns)
	}
	_, err = of.Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

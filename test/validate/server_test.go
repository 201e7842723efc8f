package validate

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// server is a control plane with the resources and policies of Sluice.
type server struct {
	*controlplane.Cluster
	// older reports that the Kubernetes version differs from the version whose messages the cases have. Then the test
	// compares only results, and no messages.
	older bool
}

func start(t *testing.T) server {
	s := server{Cluster: controlplane.ForTest(t, controlplane.Options{TypeChecks: true})}
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	s.older = version.Minor < "36"
	deploy := filepath.Join(Root(t), "deploy")
	// Client-side apply keeps the whole manifest in an annotation, which has a size limit.
	s.kubectl(t, "apply", "-f", filepath.Join(deploy, "crds"))
	s.kubectl(t, "wait", "--for=condition=Established", "--timeout=600s", "crd",
		"rollouts.rollouts.kruise.io", "trafficroutings.rollouts.kruise.io", "rollouthistories.rollouts.kruise.io",
		"analysistemplates.sluice.dev", "clusteranalysistemplates.sluice.dev",
		"fleetmembers.sluice.dev", "fleetplans.sluice.dev", "fleetrollouts.sluice.dev", "fleettargets.sluice.dev")
	s.apply(t, oldRollout)
	s.kubectl(t, "apply", "-f", filepath.Join(deploy, "policies", "validate.yaml"), "-f", filepath.Join(deploy, "policies", "validate-fleet.yaml"))
	s.awaitPolicies(t)
	return s
}

func (s server) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := s.KubectlStdin(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (s server) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitPolicies polls until the policies answer. Their status does not show when the API server has begun to use them.
func (s server) awaitPolicies(t *testing.T) {
	t.Helper()
	var probes []Case
	for _, c := range Cases(t) {
		if c.Message == "steps must hold at least one step" || (c.File == "advice.yaml" && c.Expect == Warn) {
			probes = append(probes, c)
		}
	}
	for _, c := range FleetCases(t) {
		if c.Expect == Reject && !c.Schema && c.Old == nil {
			probes = append(probes, c)
		}
	}
	for _, c := range probes {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Minute, true,
			func(context.Context) (bool, error) {
				warnings, err := s.judge(t, c, "probe")
				return err != nil || len(warnings) > 0, nil
			})
		if err != nil {
			t.Fatalf("the policies do not work: %v", err)
		}
	}
}

// judge sends the case as a dry run and returns the API server's warnings and error.
func (s server) judge(t *testing.T, c Case, name string) ([]string, error) {
	t.Helper()
	object := decode(t, c.Object, name)
	said := &warnings{}
	client := s.client(t, c.User, object, said)
	if c.Old == nil {
		_, err := client.Create(t.Context(), object,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
		return said.texts, err
	}
	old := s.create(t, decode(t, c.Old, name))
	object.SetResourceVersion(old.GetResourceVersion())
	options := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}
	var err error
	if c.Subresource == "status" {
		_, err = client.UpdateStatus(t.Context(), object, options)
	} else {
		_, err = client.Update(t.Context(), object, options)
	}
	return said.texts, err
}

// create creates the object as an administrator, and writes its status as the executor. A Rollout whose status knows no fleet joins its fleet after that.
func (s server) create(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	client := s.client(t, api.DefaultInstallation().ExecutorUser(), object, &warnings{})
	fleet, _, err := unstructured.NestedMap(object.Object, "spec", "fleet")
	if err != nil {
		t.Fatal(err)
	}
	_, remembers, err := unstructured.NestedMap(object.Object, "status", "fleet")
	if err != nil {
		t.Fatal(err)
	}
	joins := fleet != nil && !remembers
	if joins {
		object = object.DeepCopy()
		unstructured.RemoveNestedField(object.Object, "spec", "fleet")
	}
	made, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatalf("create the object to update: %v", err)
	}
	if object.Object["status"] != nil && made.Object["status"] == nil { // a FleetTarget has no subresource
		made.Object["status"] = object.Object["status"]
		if made, err = client.UpdateStatus(t.Context(), made, metav1.UpdateOptions{FieldValidation: "Strict"}); err != nil {
			t.Fatalf("set the status of the object to update: %v", err)
		}
	}
	if !joins {
		return made
	}
	if err := unstructured.SetNestedMap(made.Object, fleet, "spec", "fleet"); err != nil {
		t.Fatal(err)
	}
	if made, err = client.Update(t.Context(), made, metav1.UpdateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatalf("let the object to update join its fleet: %v", err)
	}
	return made
}

// decode returns the object, under another name unless the name is empty.
func decode(t *testing.T, text []byte, name string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	if name != "" {
		object.SetName(name)
	}
	return object
}

// client acts as a user with all rights, so that only schema and policies refuse.
func (s server) client(t *testing.T, user string, object *unstructured.Unstructured, said *warnings) dynamic.ResourceInterface {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.WarningHandlerWithContext = said
	config.QPS, config.Burst = -1, -1
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if kind := object.GetKind(); kind == api.KindFleetMember || kind == api.KindFleetPlan {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace("default")
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

package kube_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
)

const aTemplate = `apiVersion: sluice.dev/v1alpha1
kind: KIND
metadata: {name: NAME}
spec:
  metrics:
  - {name: success, interval: 30s, count: 3, passWhen: value > 0.9, prometheus: {address: "http://p.m.svc", query: up}}
`

func templateNamed(kind, name string) string {
	return strings.NewReplacer("KIND", kind, "NAME", name).Replace(aTemplate)
}

// measuredRollout names a template in its first step, and a ClusterAnalysisTemplate for the release.
func measuredRollout(w *world) string {
	text := strings.Replace(canaryRollout, "  strategy:\n", "  strategy:\n    analysis: {templates: [{name: "+w.namespace+", clusterScope: true}]}\n", 1)
	return strings.Replace(text, "replicas: 1,", "replicas: 1, analysis: {templates: [{name: rates}]},", 1)
}

// missing returns the reasons of problems with analyses, by the field in the message.
func missing(s *kube.Snapshot) map[string]api.Reason {
	list := map[string]api.Reason{}
	for _, p := range s.Seen.Problems {
		if field, _, _ := strings.Cut(p.Message, " "); strings.HasPrefix(field, "spec.") {
			list[field] = p.Reason
		}
	}
	return list
}

func TestTemplatesThatAreMissingAreProblemsUntilTheyAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment, service, measuredRollout(w))
	w.kubectl("", "label", "deployment", "web", api.LabelWorkloadType+"=deployment") // the watches keep too little of other Deployments
	ctx, cancel := context.WithCancel(t.Context())
	moved, done := make(chan types.NamespacedName, 1000), make(chan struct{})
	go func() { defer close(done); w.client.Start(ctx, func(name types.NamespacedName) { moved <- name }) }()
	t.Cleanup(func() { cancel(); <-done })
	w.client.WaitForCacheSync(ctx)
	step, whole := "spec.strategy.canary.steps[0].analysis.templates[0].name", "spec.strategy.analysis.templates[0].name"
	both := map[string]api.Reason{step: rollout.ReasonAnalysisTemplateMissing, whole: rollout.ReasonAnalysisTemplateMissing}

	live, err := w.client.ObserveLive(ctx, w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(both, missing(live)); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	w.eventually("the watches show the same", func() bool {
		s, ok := w.client.ObserveCached(w.key("web"))
		return ok && cmp.Equal(both, missing(s))
	})
	w.client.TrackAfterRun(w.observe("web"))
	w.apply(templateNamed("AnalysisTemplate", "rates"), templateNamed("ClusterAnalysisTemplate", w.namespace))
	t.Cleanup(func() { // it is cluster-scoped, so it outlives the namespace
		if _, err := plane.KubectlStdin(context.WithoutCancel(t.Context()), "", "delete", "clusteranalysistemplate", w.namespace); err != nil {
			t.Error(err)
		}
	})
	w.eventually("the watch tells of it", func() bool { return len(moved) > 0 && <-moved == w.key("web") })
	w.eventually("nothing is missing", func() bool { return len(missing(w.observe("web"))) == 0 })
	s, ok := w.client.ObserveCached(w.key("web"))
	if !ok || len(missing(s)) != 0 {
		t.Errorf("by the watches alone: %v, and %v", ok, missing(s))
	}
}

func TestARolloutWithoutAnalysisReadsNoTemplates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment, service, canaryRollout)
	w.observe("web")
	_, without := w.client.ReadCounts()
	w.apply(measuredRollout(w))
	w.observe("web")
	_, with := w.client.ReadCounts()
	if diff := cmp.Diff([]int64{without, without + 2}, []int64{without, with - without}); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

func analysisClient(t *testing.T) *kube.AnalysisClient {
	t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultAnalyzer}
	a, err := kube.NewAnalysisClient(cfg, kube.AnalysisOptions{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestASecretIsReadWithTheRightsThatItsNamespaceGives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := analysisClient(t)
	read := func(name string) string {
		data, err := a.ReadSecret(t.Context(), w.key(name))
		if err != nil {
			return err.Error()
		}
		return string(data["token"])
	}
	if got := read("reader"); !strings.Contains(got, "may not get the Secret reader in namespace "+w.namespace) {
		t.Errorf("without a Role: %s", got)
	}
	w.kubectl("", "create", "role", "reader", "--verb=get", "--resource=secrets", "--resource-name=reader")
	w.kubectl("", "create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+api.DefaultNamespace+":"+api.DefaultAnalyzer)
	w.eventually("the Role counts", func() bool { return strings.Contains(read("reader"), "does not exist") })
	w.kubectl("", "create", "secret", "generic", "reader", "--from-literal=token=t")
	if got := read("reader"); got != "t" {
		t.Errorf("with a Role: %s", got)
	}
	w.kubectl("", "delete", "secret", "reader")
	if got := read("reader"); got != "t" {
		t.Errorf("a moment later: %s", got)
	}
}

package watcher

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// measuredStatus is the write of an executor when the analyses of the first step begin. Their renewal is never overdue.
const measuredStatus = `{"status":{"canaryStatus":{"currentStepIndex":1,"nextStepIndex":2,"currentStepState":"StepMetricsAnalysis"},
	"currentStepIndex":1,"currentStepState":"StepMetricsAnalysis","sluice":{"epoch":1,"step":1,"state":"StepMetricsAnalysis","pauseSeq":1},
	"analysis":{"step":{"phase":"Running","epoch":1,"step":1,"pauseSeq":1,"routedAt":"2026-11-20T10:00:00.000000Z","renewBy":"2126-11-20T10:00:00.000000Z"}}}}`

// withAnalysis returns a Rollout with templates for its first step.
func withAnalysis(name string) string {
	return strings.Replace(webRollout(name), "{replicas: 1, traffic: 20%}",
		"{replicas: 1, traffic: 20%, analysis: {templates: [{name: errors}, {name: "+clusterTemplateName(name)+", clusterScope: true}]}}", 1)
}

func clusterTemplateName(rollout string) string { return "of-" + rollout }

func template(kind, name, passWhen string) string {
	return fmt.Sprintf(`
apiVersion: sluice.dev/v1alpha1
kind: %s
metadata: {name: %s}
spec:
  metrics:
  - name: errors
    interval: 30s
    count: 3
    prometheus: {address: "http://prometheus.test.svc:9090", query: up}
    passWhen: %s`, kind, name, passWhen)
}

func (s *scene) analysis(step string) {
	s.t.Helper()
	s.patch("rollout/web", `{"status":{"analysis":{"step":`+step+`}}}`, "--subresource=status")
}

func TestWhatAnalysesWaitForWakesThem(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(s *scene) {
		withEverything(s)
		s.patch("rollout/web", measuredStatus, "--subresource=status")
	})
	s.wakes("web/analysis", "the start of the watcher", func() {})
	s.wakes("web/analysis", "another routing", func() { s.analysis(`{"routedAt":"2026-11-20T10:01:00.000000Z"}`) })
	s.wakes("web", "a phase", func() { s.analysis(`{"phase":"Waiting","message":"no data"}`) })
	s.wakes("web/analysis", "another plan", func() { s.patch("rollout/web", `{"spec":{"strategy":{"paused":true}}}`) })
	s.wakes("web/analysis", "the loss of the stream of work", func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stream = s.stream.Add(time.Hour)
	})
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestMeasurementsWakeExecutorsOncePerPhase(t *testing.T) {
	s := newScene(t, func(s *scene) {
		withEverything(s)
		s.patch("rollout/web", measuredStatus, "--subresource=status")
	})
	s.wakes("web/analysis", "the start of the watcher", func() {})
	s.quiet("web", "a count or a renewal", func() {
		s.analysis(`{"metrics":[{"name":"errors","phase":"Running","passed":1,"lastValue":"1"}]}`)
		s.analysis(`{"metrics":[{"name":"errors","phase":"Running","passed":2,"lastValue":"1"}],"renewBy":"2126-11-20T11:00:00.000000Z"}`)
	}, func() { s.analysis(`{"phase":"Passed","endedAt":"2026-11-20T10:02:00.000000Z"}`) })
	if n := s.seen()["web/analysis"]; n != 0 {
		t.Errorf("what analyzers write wakes them %d times", n)
	}
}

// The message that should have caused the next measurement is lost, and the analyzer has died.
func TestAnAnalysisThatNobodyRenewsIsSwept(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(s *scene) {
		withEverything(s)
		s.patch("rollout/web", measuredStatus, "--subresource=status")
	})
	s.wakes("web/analysis", "the start of the watcher", func() {})
	at := time.Now().Truncate(time.Second).Add(3 * time.Second)
	s.analysis(fmt.Sprintf(`{"renewBy":%q}`, at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
	for time.Now().Before(at) {
		s.wakes("web/analysis", "its silence", func() {})
	}
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestTemplatesWakeWhoIsMeasuredByThem(t *testing.T) {
	name := "of-templated"
	s := newScene(t, func(s *scene) { s.apply(withAnalysis("templated"), webRollout("other")) })
	t.Cleanup(func() { s.kubectl("", "delete", "clusteranalysistemplate", name, "--ignore-not-found") })
	s.wakes("templated", "the start of the watcher", func() {})
	for _, kind := range []string{"AnalysisTemplate", "ClusterAnalysisTemplate"} {
		of := map[string]string{"AnalysisTemplate": "errors", "ClusterAnalysisTemplate": name}[kind]
		s.wakes("templated", "a new "+kind, func() { s.apply(template(kind, of, "value > 0")) })
		s.wakes("templated", "another spec of the "+kind, func() { s.apply(template(kind, of, "value > 1")) })
		s.quiet("templated", "a label of the "+kind+", or another one", func() {
			s.kubectl("", "label", kind, of, "a=b")
			s.apply(template("AnalysisTemplate", "unrelated", "value > 0"))
		}, func() { s.apply(template(kind, of, "value > 2")) })
		if got := s.seen(); got["other"] != 0 || got["templated/analysis"] != 0 {
			t.Errorf("who is not measured is woken: %v", got)
		}
		s.wakes("templated", "the end of the "+kind, func() { s.kubectl("", "delete", kind, of) })
	}
	s.patch("rollout/templated", measuredStatus, "--subresource=status")
	s.wakes("templated/analysis", "a template of what is being measured", func() { s.apply(template("AnalysisTemplate", "errors", "value > 3")) })
}

// It does not run in parallel with other tests, because it removes kinds that they use.
func TestTemplatesMayBeInstalledLater(t *testing.T) {
	crds := []string{"../../deploy/crds/sluice.dev_analysistemplates.yaml", "../../deploy/crds/sluice.dev_clusteranalysistemplates.yaml"}
	install := func(s *scene) {
		for _, crd := range crds {
			s.kubectl("", "apply", "--server-side", "-f", crd)
		}
		s.kubectl("", "wait", "crd/analysistemplates.sluice.dev", "crd/clusteranalysistemplates.sluice.dev", "--for=condition=Established")
	}
	s := newScene(t, func(s *scene) {
		t.Cleanup(func() { install(s) })
		s.kubectl("", "delete", "crd", "analysistemplates.sluice.dev", "clusteranalysistemplates.sluice.dev")
		s.apply(withAnalysis("web"))
	})
	s.wakes("web", "the start of the watcher", func() {})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); s.watcher.Ready() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal(s.watcher.Ready())
		}
	}
	s.wakes("web", "the kinds", func() { install(s) })
	s.wakes("web", "a template", func() { s.apply(template("AnalysisTemplate", "errors", "value > 0")) })
	s.wakes("web", "another spec of it", func() { s.apply(template("AnalysisTemplate", "errors", "value > 1")) })
}

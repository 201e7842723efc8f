package rollout

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/validate"
)

func TestParseAgreesWithTheTableOfCases(t *testing.T) {
	for _, c := range validate.Cases(t) {
		if c.Schema || c.Subresource != "" || c.Old != nil && c.Expect == validate.Reject {
			continue // the parser reads one object, without its status and its earlier version
		}
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			var r api.Rollout
			err := json.Unmarshal(c.Object, &r)
			if err != nil && c.Expect == validate.Reject {
				return // decoding refuses it before the parser
			}
			if err == nil {
				_, err = Parse(&r)
			}
			switch refused := c.Expect == validate.Reject; {
			case refused && err == nil:
				t.Errorf("accepted, want %q", c.Message)
			case refused && !strings.Contains(err.Error(), c.Message):
				t.Errorf("got %q, want %q", err, c.Message)
			case !refused && err != nil:
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func parseYAML(t *testing.T, text string) Spec {
	t.Helper()
	var r api.Rollout
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	spec, err := Parse(&r)
	if err != nil {
		t.Fatal(err)
	}
	spec.Hash = ""
	return spec
}

func TestParseReadsBothShapes(t *testing.T) {
	version := []api.HTTPRouteMatch{{Headers: []api.HTTPHeaderMatch{{Type: new(api.MatchExact), Name: "version", Value: "canary"}}}}
	cases := map[string]struct {
		manifest string
		want     Spec
	}{
		"the VirtualService example, in canary style": {seedCanary, Spec{
			Workload: Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "workload-demo"}, Style: StyleCanary,
			Steps: []Step{
				{Replicas: Amount{Value: 1}, Matches: version, Manual: true},
				{Replicas: Amount{Value: 50, Percent: true}, Weight: new(Percent(50)), Manual: true},
				{Replicas: Amount{Value: 80, Percent: true}, Weight: new(Percent(80)), Manual: true},
			},
			Routing: []Routing{{Service: "service-demo", CanaryService: "service-demo-canary", Grace: 3 * time.Second, Objects: []Ref{
				{APIVersion: "networking.istio.io/v1alpha3", Kind: "VirtualService", Name: "vs-demo"},
			}}},
			PatchLabels: map[string]string{}, PatchAnnotations: map[string]string{}, AbortDelay: 30 * time.Second,
		}},
		"the walkthrough in v1alpha1, with one Service for both versions": {seedLegacy, Spec{
			Workload: Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "nginx-deployment"}, Style: StyleCanary,
			Steps: []Step{
				{Replicas: Amount{Value: 20, Percent: true}, Weight: new(Percent(20)), Manual: true},
				{Replicas: Amount{Value: 1}, Matches: version, Manual: true},
			},
			Routing: []Routing{{Service: "nginx-service", CanaryService: "nginx-service", Grace: 3 * time.Second, Objects: []Ref{
				{APIVersion: "networking.istio.io/v1alpha3", Kind: "VirtualService", Name: "nginx-vs"}, {APIVersion: "networking.istio.io/v1beta1", Kind: "DestinationRule", Name: "nginx-dr"},
			}}},
			PatchLabels: map[string]string{"version": "canary"}, PatchAnnotations: map[string]string{}, AbortDelay: 30 * time.Second,
		}},
		"the ingress example in v1alpha1 is partition style, through an Ingress of a class": {seedPartition, Spec{
			Workload: Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "echoserver"}, Style: StylePartition,
			Steps: []Step{
				{Replicas: Amount{Value: 1}, Weight: new(Percent(5)), Manual: true},
				{Replicas: Amount{Value: 100, Percent: true}, Weight: new(Percent(100)), Pause: 30 * time.Second},
			},
			Routing: []Routing{{Service: "echoserver", CanaryService: "echoserver-canary", Grace: 0, Objects: []Ref{
				{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "echoserver", Class: "aliyun-alb"},
			}}},
			AbortDelay: 30 * time.Second,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseYAML(t, c.manifest)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseReadsAnalysesOfTheOlderShape(t *testing.T) {
	spec := parseYAML(t, strings.Replace(seedLegacy, "  strategy:", "  strategy:\n    analysis: {templates: [{name: errors}]}", 1))
	want := &Analysis{Templates: []TemplateRef{{Name: "errors"}}, Args: map[string]string{}, OnFailure: api.FailureAbort, StartingStep: 1}
	if diff := cmp.Diff(want, spec.ReleaseAnalysis); diff != "" {
		t.Error(diff)
	}
}

func TestAmountOf(t *testing.T) {
	cases := []struct {
		amount      string
		total, want int32
	}{{"1", 10, 1}, {"20", 10, 10}, {"1%", 10, 1}, {"50%", 3, 2}, {"100%", 3, 3}, {"33%", 100, 33}, {"50%", 0, 0}, {"2147483647%", 2147483647, 2147483647}}
	for _, c := range cases {
		a, err := ParseAmount(c.amount)
		if err != nil || a.Of(c.total) != c.want || a.String() != c.amount {
			t.Errorf("%s of %d is %d (%v), want %d", c.amount, c.total, a.Of(c.total), err, c.want)
		}
	}
	for _, bad := range []string{"", "%", "-1", "-1%", "x", "1.5", "99999999999"} {
		if a, err := ParseAmount(bad); err == nil {
			t.Errorf("%q is read as %s", bad, a)
		}
	}
}

func TestParseReadsAnalyses(t *testing.T) {
	spec := parseYAML(t, strings.NewReplacer("  strategy:", `  strategy:
    analysis:
      templates: [{name: errors, clusterScope: true}]
      args: [{name: limit, value: "3"}]
      startingStep: 2
      autoPromote: true`, "      steps:\n", `      abortScaleDownDelaySeconds: 0
      onFailure: Pause
      steps:
      - replicas: 1
        analysis: {templates: [{name: latency}], onFailure: Rollback}
`).Replace(seedCanary))
	whole := &Analysis{
		Templates: []TemplateRef{{"errors", true}}, Args: map[string]string{"limit": "3"}, OnFailure: api.FailurePause, AutoPromote: true, StartingStep: 2,
	}
	own := &Analysis{Templates: []TemplateRef{{Name: "latency"}}, Args: map[string]string{}, OnFailure: api.FailureRollback}
	if diff := cmp.Diff([]*Analysis{whole, own, whole}, []*Analysis{spec.ReleaseAnalysis, spec.StepAnalysis(1), spec.StepAnalysis(2)}); diff != "" {
		t.Error(diff)
	}
	if spec.AbortDelay != 0 || len(spec.Unsupported) > 0 {
		t.Errorf("the delay is %s, unsupported is %v", spec.AbortDelay, spec.Unsupported)
	}
}

// A cookie becomes a pattern of its header, and a match may name a header only once.
func TestAMatchAsksForTheHeaderOfCookiesOnce(t *testing.T) {
	for matches, want := range map[string]string{
		`[{"cookie":{"name":"a","value":"b"}}]`:                                             "",
		`[{"cookie":{"name":"a","value":"b"}},{"headers":[{"name":"cookie","value":"b"}]}]`: "",
		`[{"cookie":{"name":"a","value":"b"},"headers":[{"name":"COOKIE","value":"b"}]}]`:   "a match has a condition on the header Cookie and one on a cookie",
	} {
		var step api.Step
		if err := json.Unmarshal([]byte(`{"matches":`+matches+`}`), &step); err != nil {
			t.Fatal(err)
		}
		if err := checkRequests(step); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: want %q, got %v", matches, want, err)
		}
	}
}

func TestParseReadsDeadlines(t *testing.T) {
	t.Parallel()
	spec := parseYAML(t, seedCanary)
	if spec.ProgressDeadline != 0 {
		t.Errorf("without the field there are %s", spec.ProgressDeadline)
	}
	plan := PlanHash(spec)
	spec = parseYAML(t, strings.Replace(seedCanary, "      steps:\n", "      progressDeadlineSeconds: 600\n      onDeadline: Abort\n      steps:\n", 1))
	if spec.ProgressDeadline != 10*time.Minute || spec.OnDeadline != api.DeadlineAbort || len(spec.Unsupported) > 0 {
		t.Errorf("it is read as %s, %q, unsupported is %v", spec.ProgressDeadline, spec.OnDeadline, spec.Unsupported)
	}
	if PlanHash(spec) != plan {
		t.Error("a step starts over when its deadline is edited")
	}
}

func TestTheNameOfATrafficRouting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field, annotation, want string
		err                     error
	}{
		"none":              {},
		"by the field":      {field: "gray", want: "gray"},
		"by the annotation": {annotation: "gray", want: "gray"},
		"by both":           {field: "gray", annotation: "gray", want: "gray"},
		"two":               {field: "gray", annotation: "blue", err: errTwoTrafficRoutings},
	} {
		r := &api.Rollout{}
		r.Annotations = map[string]string{api.AnnotationTrafficRouting: c.annotation}
		if got, err := trafficRoutingName(r, plan{routingRef: c.field}); got != c.want || err != c.err {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
	}
}

// Manifests as in OpenKruise's documentation; the first is in the canary style that its text describes.
const (
	seedCanary = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: rollouts-demo}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: workload-demo}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps:
      - replicas: 1
        matches:
        - headers:
          - {type: Exact, name: version, value: canary}
      - {traffic: 50%, replicas: 50%}
      - {traffic: 80%, replicas: 80%}
      trafficRoutings:
      - service: service-demo
        customNetworkRefs:
        - {apiVersion: networking.istio.io/v1alpha3, kind: VirtualService, name: vs-demo}
`
	seedLegacy = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata:
  name: rollouts-demo
  annotations: {rollouts.kruise.io/rolling-style: canary}
spec:
  disabled: false
  objectRef:
    workloadRef: {apiVersion: apps/v1, kind: Deployment, name: nginx-deployment}
  strategy:
    canary:
      steps:
      - weight: 20
      - replicas: 1
        matches:
        - headers:
          - {type: Exact, name: version, value: canary}
      trafficRoutings:
      - service: nginx-service
        createCanaryService: false
        networkRefs:
        - {apiVersion: networking.istio.io/v1alpha3, kind: VirtualService, name: nginx-vs}
        - {apiVersion: networking.istio.io/v1beta1, kind: DestinationRule, name: nginx-dr}
        patchPodTemplateMetadata: {labels: {version: canary}}
`
	seedPartition = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata:
  name: rollout-with-traffic
  annotations: {rollouts.kruise.io/rolling-style: Partition}
spec:
  objectRef:
    workloadRef: {apiVersion: apps/v1, kind: Deployment, name: echoserver}
  strategy:
    canary:
      steps:
      - {replicas: 1, weight: 5, pause: {}}
      - {weight: 100, pause: {duration: 30}}
      trafficRoutings:
      - service: echoserver
        gracePeriodSeconds: 0
        ingress: {name: echoserver, classType: aliyun-alb}
`
)

func TestBlueGreenIsForDeploymentsAndCloneSets(t *testing.T) {
	t.Parallel()
	for ref, accepted := range map[api.ObjectRef]bool{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}:               true,
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}: true,
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}:              false,
		{APIVersion: "example.com/v1", Kind: "CloneSet", Name: "web"}:          false,
	} {
		step := api.Step{Replicas: new(intstr.FromString("50%"))}
		r := &api.Rollout{Spec: api.RolloutSpec{WorkloadRef: &ref, Strategy: api.Strategy{BlueGreen: &api.BlueGreenStrategy{Steps: []api.Step{step}}}}}
		_, err := Parse(r)
		if refused := err != nil && strings.HasPrefix(err.Error(), "blueGreen releases"); refused == accepted || accepted && err != nil {
			t.Errorf("%s of %s: %v", ref.Kind, ref.APIVersion, err)
		}
	}
}

package validate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

func TestTheAPIServerJudgesEveryTemplate(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.templates(t)
	var refusals []string
	for _, c := range TemplateCases(t) {
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			err := client.judge(t, "AnalysisTemplate", c.Object)
			s.check(t, c, nil, err)
			if err != nil {
				refusals = append(refusals, err.Error())
			}
			s.check(t, c, nil, client.judge(t, "ClusterAnalysisTemplate", c.Object))
		})
	}
	t.Run("every rule of the schema has a case that it refuses", func(t *testing.T) {
		if s.older {
			t.Skip("the rules are found by their words")
		}
		checkTemplateRules(t, refusals)
	})
	t.Run("limits are judged as the parser judges them", client.checkLimits)
	t.Run("the largest template is within the budget", client.checkLargest)
	t.Run("kubectl explains metrics and shows templates", s.checkTemplatesShown)
	t.Run("what the documents show is applied", s.checkDocument)
}

// templateClient sends templates as dry runs.
type templateClient struct{ client dynamic.Interface }

func (s server) templates(t *testing.T) templateClient {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.QPS, config.Burst = -1, -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return templateClient{client}
}

func (c templateClient) judge(t *testing.T, kind string, text []byte) error {
	t.Helper()
	object := decode(t, text, "case")
	object.SetKind(kind)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}
	var err error
	if kind == api.KindAnalysisTemplate {
		_, err = c.client.Resource(api.AnalysisTemplateResource()).Namespace("default").Create(t.Context(), object, options)
	} else {
		_, err = c.client.Resource(api.ClusterAnalysisTemplateResource()).Create(t.Context(), object, options)
	}
	return err
}

// checkLargest checks that nearly the largest template that the API server can store stays within its budget for
// expressions.
func (c templateClient) checkLargest(t *testing.T) {
	query := strings.Repeat("q", 8192)
	var headers []api.ProviderHeader
	for i := range 16 {
		headers = append(headers, api.ProviderHeader{Name: fmt.Sprintf("X-%02d-%s", i, strings.Repeat("h", 250)), Value: strings.Repeat("v", 1024)})
	}
	spec := api.AnalysisTemplateSpec{}
	for i := range 20 {
		spec.Metrics = append(spec.Metrics, api.Metric{
			Name: fmt.Sprintf("m%d", i), Interval: "23h59m59.999s",
			NoData: &api.NoDataPolicy{Deadline: "24h"}, Error: &api.ErrorPolicy{Deadline: "24h"},
			MinSamples: &api.MinSamples{Query: api.PromQL(query), AtLeast: 1},
			Prometheus: api.Prometheus{Address: "http://" + strings.Repeat("a", 1000), Headers: headers, Timeout: "59.999s"},
			Compare: &api.Compare{
				Counts:    &api.CompareCounts{CanaryBad: api.PromQL(query), CanaryTotal: api.PromQL(query), StableBad: api.PromQL(query), StableTotal: api.PromQL(query)},
				PassAfter: &api.PassAfter{Samples: 1, MaxRatio: 2},
			},
		})
	}
	object, err := json.Marshal(map[string]any{"apiVersion": "sluice.dev/v1alpha1", "kind": api.KindAnalysisTemplate, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.judge(t, api.KindAnalysisTemplate, object); err != nil {
		t.Errorf("%d bytes: %v", len(object), err)
	}
}

func (s server) checkTemplatesShown(t *testing.T) {
	out := s.kubectl(t, "explain", "analysistemplate.spec.metrics", "--api-version", "sluice.dev/v1alpha1")
	for _, want := range []string{"Time between two measurements, from 1s to 24h", "passWhen", "Number of failing measurements that are tolerated"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("kubectl explain does not say %q:\n%s", want, out)
		}
	}
	s.apply(t, `{"apiVersion":"sluice.dev/v1alpha1","kind":"AnalysisTemplate","metadata":{"name":"shown"},"spec":{"metrics":[
		{"name":"a","interval":"30s","prometheus":{"address":"http://p.m.svc","query":"up"},"passWhen":"value > 0"},
		{"name":"b","interval":"30s","prometheus":{"address":"http://p.m.svc","query":"up"},"passWhen":"value > 0"}]}}`)
	want := []string{"shown", "a", "http://p.m.svc"}
	if diff := cmp.Diff(want, strings.Fields(s.kubectl(t, "get", "sat", "shown", "--no-headers"))[:3]); diff != "" {
		t.Errorf("kubectl get: %s", diff)
	}
	if out := s.kubectl(t, "get", "sluice", "-o", "name"); !strings.Contains(out, "analysistemplate.sluice.dev/shown") {
		t.Errorf("the category sluice lists %q", out)
	}
}

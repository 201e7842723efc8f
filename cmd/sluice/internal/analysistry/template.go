// Package analysistry measures the metrics of analysis templates once, and explains the results. It needs no cluster and changes nothing. Except for the text
// format, printing reports is up to the caller.
//
// Its one invariant: it fills in, sends and judges queries with the same code as the analyzer.
package analysistry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

// Template is an AnalysisTemplate or a ClusterAnalysisTemplate.
type Template struct {
	// Name is Kind/name.
	Name string
	Spec api.AnalysisTemplateSpec
}

// ReadTemplates reads the templates of a YAML stream. Any other object is an error.
func ReadTemplates(stream io.Reader) ([]Template, error) {
	var list []Template
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(stream)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read templates: %w", err)
		}
		t, err := parseTemplate(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(list)+1, err)
		}
		if t != nil {
			list = append(list, *t)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("there is no template in it; it should hold an AnalysisTemplate or a ClusterAnalysisTemplate")
	}
	return list, nil
}

// parseTemplate returns nil for a document that contains only comments.
func parseTemplate(text []byte) (*Template, error) {
	var whole map[string]any
	if err := yaml.Unmarshal(text, &whole); err != nil || whole == nil {
		return nil, err
	}
	var t api.AnalysisTemplate
	version, kind := whole["apiVersion"], whole["kind"]
	if kind != api.KindAnalysisTemplate && kind != api.KindClusterAnalysisTemplate || version != api.AnalysisTemplateResource().GroupVersion().String() {
		return nil, fmt.Errorf("it is a %v of %v; give an %s or a %s of %s", kind, version, api.KindAnalysisTemplate, api.KindClusterAnalysisTemplate, api.AnalysisTemplateResource().GroupVersion())
	}
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return nil, fmt.Errorf("%v: %s", kind, strings.ReplaceAll(err.Error(), "error unmarshaling JSON: while decoding JSON: json: ", ""))
	}
	if len(t.Spec.Metrics) == 0 {
		return nil, fmt.Errorf("%v %s has no metrics; add one under spec.metrics", kind, t.Name)
	}
	return &Template{Name: fmt.Sprintf("%v/%s", kind, t.Name), Spec: t.Spec}, nil
}

// Package cases reads, runs and converts the test cases of traffic scripts. A case
// is a YAML file with a Rollout (or a TrafficRouting), an original object, and the
// object expected at each step.
//
// It is not a test framework: it compares and describes, and the caller decides what
// to do. Its one invariant: a case gives a script exactly the obj that a release
// with the same manifest would give it.
package cases

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/script"
)

// Case is one test case.
type Case struct {
	Path     string // the path of its file
	Script   string // the path of the tested script, next to testdata
	Steps    []script.Input
	Expected []map[string]any   // one object per step
	Created  [][]map[string]any // the objects created in each step: objects, or for an Ingress class the suffix and annotations of each copy
	Refused  string             // part of the reason for the refusal of each step, instead of Expected
	Class    string             // the class of an Ingress, which stays unchanged, so that only Created is expected
	Original map[string]any
}

// file is the YAML form of a case.
type file struct {
	Rollout        map[string]any     `json:"rollout"`
	TrafficRouting map[string]any     `json:"trafficRouting"`
	Original       map[string]any     `json:"original"`
	Reads          []any              `json:"reads"`
	Expected       []map[string]any   `json:"expected"`
	Created        [][]map[string]any `json:"created"`
	Refused        string             `json:"refused"`
}

// LoadAll returns the cases of a tree laid out like lua_configuration, and an
// error if a script has none.
func LoadAll(tree fs.FS) ([]Case, error) {
	scripts, err := fs.Glob(tree, "*/*/trafficRouting.lua")
	if err != nil {
		return nil, fmt.Errorf("list scripts: %w", err)
	}
	var all []Case
	for _, s := range scripts {
		some, err := LoadCases(tree, s)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// LoadCases returns the cases of the script at that path of the tree, and an error if
// it has none.
func LoadCases(tree fs.FS, script string) ([]Case, error) {
	files, err := fs.Glob(tree, path.Join(path.Dir(script), "testdata", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list cases of %s: %w", script, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no test case; add one to %s/testdata", script, path.Dir(script))
	}
	var all []Case
	for _, f := range files {
		c, err := LoadCase(tree, f)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// ingresses is the directory of the scripts for Ingress classes.
const ingresses = "trafficrouting_ingress"

// LoadIngressCases returns the cases of the scripts for Ingress classes. They are in
// <class>/testdata next to the script. It returns an error if a script has none.
func LoadIngressCases(tree fs.FS) ([]Case, error) {
	scripts, err := fs.Glob(tree, ingresses+"/*.lua")
	if err != nil {
		return nil, fmt.Errorf("list scripts: %w", err)
	}
	var all []Case
	for _, s := range scripts {
		some, err := LoadClassCases(tree, s)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// LoadClassCases returns the cases of the script for an Ingress class at that path of
// the tree, and an error if it has none.
func LoadClassCases(tree fs.FS, script string) ([]Case, error) {
	all, err := LoadCases(tree, path.Join(strings.TrimSuffix(script, ".lua"), "trafficRouting.lua"))
	for i := range all {
		all[i].Script, all[i].Class = script, strings.TrimSuffix(path.Base(script), ".lua")
	}
	return all, err
}

// LoadCase reads the case at name.
func LoadCase(tree fs.FS, name string) (Case, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	c, err := ParseCase(source)
	if err != nil {
		return Case{}, fmt.Errorf("case %s: %w", name, err)
	}
	c.Path = name
	c.Script = path.Join(path.Dir(path.Dir(name)), "trafficRouting.lua")
	return c, nil
}

// ParseCase reads the source of a case.
func ParseCase(source []byte) (Case, error) {
	var f file
	if err := yaml.UnmarshalStrict(source, &f, exactNumbers); err != nil {
		return Case{}, fmt.Errorf("parse: %w", err)
	}
	steps, err := StepInputs(f.Rollout, f.TrafficRouting, f.Original)
	if err != nil {
		return Case{}, err
	}
	for i := range steps {
		steps[i].Reads = f.Reads
	}
	return Case{Original: f.Original, Expected: f.Expected, Created: f.Created, Refused: f.Refused, Steps: steps}, nil
}

// StepInputs returns the inputs of a script for an object, one for each step. They
// come from a Rollout or a TrafficRouting; the other one is nil. All arguments are
// as [ReadManifest] returns them.
func StepInputs(rollout, trafficRouting, original map[string]any) (steps []script.Input, err error) {
	if original == nil {
		return nil, fmt.Errorf("it has no original; add the object before the release")
	}
	switch {
	case rollout != nil && trafficRouting != nil:
		return nil, fmt.Errorf("it has both rollout and trafficRouting; keep one")
	case rollout != nil:
		steps, err = rolloutSteps(rollout)
	case trafficRouting != nil:
		steps, err = trafficRoutingSteps(trafficRouting)
	default:
		return nil, fmt.Errorf("it has neither rollout nor trafficRouting; add one")
	}
	if err != nil {
		return nil, err
	}
	for i := range steps {
		in := &steps[i]
		in.Spec = original["spec"]
		in.Of = script.AboutObject(original)
		in.Labels = stringMap(fieldAt(original, "metadata", "labels"))
		in.Annotations = stringMap(fieldAt(original, "metadata", "annotations"))
		if in.Namespace == "" {
			in.Namespace = toString(fieldAt(original, "metadata", "namespace"))
		}
	}
	return steps, nil
}

// ReadManifest reads a manifest, and keeps the text of its numbers.
func ReadManifest(source []byte) (map[string]any, error) {
	var object map[string]any
	if err := yaml.Unmarshal(source, &object, exactNumbers); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return object, nil
}

func exactNumbers(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// Name is the name of the case's file without its extension.
func (c Case) Name() string { return strings.TrimSuffix(path.Base(c.Path), ".yaml") }

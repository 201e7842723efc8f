// Package cases reads, runs and converts the test cases of traffic scripts:
// YAML files with a Rollout (or a TrafficRouting), an original object, and the
// object expected at each step.
//
// It is no test framework: it compares and describes, and whoever calls it
// decides what to do. Its one invariant: a case feeds a script exactly the obj
// that a release with the same manifest would.
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
	Path     string // of its file
	Script   string // path of the script that it tests, beside testdata
	Steps    []script.Input
	Expected []map[string]any // one object per step
	Original map[string]any
}

// file is a case as it is written.
type file struct {
	Rollout        map[string]any   `json:"rollout"`
	TrafficRouting map[string]any   `json:"trafficRouting"`
	Original       map[string]any   `json:"original"`
	Expected       []map[string]any `json:"expected"`
}

// All returns the cases of a tree laid out like lua_configuration, and an
// error if a script has none.
func All(tree fs.FS) ([]Case, error) {
	scripts, err := fs.Glob(tree, "*/*/trafficRouting.lua")
	if err != nil {
		return nil, fmt.Errorf("list scripts: %w", err)
	}
	var all []Case
	for _, s := range scripts {
		files, err := fs.Glob(tree, path.Join(path.Dir(s), "testdata", "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("list cases of %s: %w", s, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no test case; add one to %s/testdata", s, path.Dir(s))
		}
		for _, f := range files {
			c, err := Load(tree, f)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// Load reads the case at name.
func Load(tree fs.FS, name string) (Case, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	c, err := Parse(source)
	if err != nil {
		return Case{}, fmt.Errorf("case %s: %w", name, err)
	}
	c.Path = name
	c.Script = path.Join(path.Dir(path.Dir(name)), "trafficRouting.lua")
	return c, nil
}

// Parse reads the source of a case.
func Parse(source []byte) (Case, error) {
	var f file
	if err := yaml.UnmarshalStrict(source, &f, exactNumbers); err != nil {
		return Case{}, fmt.Errorf("parse: %w", err)
	}
	c := Case{Original: f.Original, Expected: f.Expected}
	if f.Original == nil {
		return Case{}, fmt.Errorf("it has no original; add the object before the release")
	}
	var err error
	switch {
	case f.Rollout != nil && f.TrafficRouting != nil:
		return Case{}, fmt.Errorf("it has both rollout and trafficRouting; keep one")
	case f.Rollout != nil:
		c.Steps, err = rolloutSteps(f.Rollout)
	case f.TrafficRouting != nil:
		c.Steps, err = trafficRoutingSteps(f.TrafficRouting)
	default:
		return Case{}, fmt.Errorf("it has neither rollout nor trafficRouting; add one")
	}
	if err != nil {
		return Case{}, err
	}
	for i := range c.Steps {
		in := &c.Steps[i]
		in.Spec = f.Original["spec"]
		in.Labels = stringMap(at(f.Original, "metadata", "labels"))
		in.Annotations = stringMap(at(f.Original, "metadata", "annotations"))
		if in.Namespace == "" {
			in.Namespace = text(at(f.Original, "metadata", "namespace"))
		}
	}
	return c, nil
}

func exactNumbers(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// Name is the name of the case's file without its ending.
func (c Case) Name() string { return strings.TrimSuffix(path.Base(c.Path), ".yaml") }

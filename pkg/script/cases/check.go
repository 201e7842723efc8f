package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/script"
)

// Check runs the case with the script of the tree. It returns the differences from
// the expected objects, one sentence each; none means that it passed. It runs each
// step twice; both runs must give the same.
func (c Case) Check(ctx context.Context, tree fs.FS) []string {
	source, err := c.Source(script.NewLibrary(tree, ""))
	if err != nil {
		return []string{err.Error()}
	}
	return c.CheckSource(ctx, source)
}

// Source is the script of the case; it ignores ConfigMaps.
func (c Case) Source(library *script.Library) (script.Source, error) {
	if c.Class != "" {
		return library.FindIngress(c.Class, script.ConfigMap{})
	}
	group, kind := path.Split(path.Dir(c.Script))
	return library.FindScript(path.Clean(group), kind, script.ConfigMap{})
}

// CheckSource is like Check, with a given script.
func (c Case) CheckSource(ctx context.Context, source script.Source) []string {
	var wrong []string
	for _, r := range c.Run(ctx, source) {
		for _, w := range r.Wrong {
			if r.Step > 0 {
				w = fmt.Sprintf("step %d: %s", r.Step, w)
			}
			wrong = append(wrong, w)
		}
	}
	return wrong
}

// compareOutput compares the parts that a script decides: spec, labels and
// annotations.
func compareOutput(want map[string]any, got script.Output) []string {
	var diffs []string
	diffs = append(diffs, listDifferences("spec", toJSON(want["spec"]), toJSON(got.Spec))...)
	diffs = append(diffs, listDifferences("labels", stringValues(fieldAt(want, "metadata", "labels")), toJSON(got.Labels))...)
	return append(diffs, listDifferences("annotations", stringValues(fieldAt(want, "metadata", "annotations")), toJSON(got.Annotations))...)
}

func stringValues(v any) any { return toJSON(stringMap(v)) }

// toJSON converts a value to Go's types for JSON; an empty map of strings becomes an
// empty object.
func toJSON(v any) any {
	if m, ok := v.(map[string]string); ok && len(m) == 0 {
		return map[string]any{}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out any
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		return err.Error()
	}
	return out
}

// listDifferences lists the places in which two JSON values differ, by path.
func listDifferences(path string, want, got any) []string {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	if w, ok := want.(map[string]any); ok {
		if g, ok := got.(map[string]any); ok {
			return memberDifferences(path, w, g)
		}
	}
	if w, ok := want.([]any); ok {
		if g, ok := got.([]any); ok && len(w) == len(g) {
			var out []string
			for i := range w {
				out = append(out, listDifferences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
			}
			return out
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, compactJSON(want), compactJSON(got))}
}

func memberDifferences(path string, want, got map[string]any) []string {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		w, expected := want[k]
		g, present := got[k]
		switch {
		case !expected:
			out = append(out, fmt.Sprintf("%s.%s: want nothing, got %s", path, k, compactJSON(g)))
		case !present:
			out = append(out, fmt.Sprintf("%s.%s: want %s, got nothing", path, k, compactJSON(w)))
		default:
			out = append(out, listDifferences(path+"."+k, w, g)...)
		}
	}
	return out
}

func compactJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

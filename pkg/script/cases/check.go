package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/script"
)

// Check runs the case with the script of the tree beside it and returns what
// differs from what the case expects, one sentence each; none means it passed.
// Each step runs twice and must give the same both times.
func (c Case) Check(ctx context.Context, tree fs.FS) []string {
	text, err := fs.ReadFile(tree, c.Script)
	if err != nil {
		return []string{err.Error()}
	}
	program, err := script.Compile(c.Script, string(text))
	if err != nil {
		return []string{err.Error()}
	}
	return c.CheckProgram(ctx, program)
}

// CheckProgram is Check with a program at hand.
func (c Case) CheckProgram(ctx context.Context, program *script.Program) []string {
	var wrong []string
	if len(c.Expected) != len(c.Steps) {
		return []string{fmt.Sprintf("the case has %d steps and expects %d objects; write one object per step", len(c.Steps), len(c.Expected))}
	}
	for i, in := range c.Steps {
		step := fmt.Sprintf("step %d: ", i+1)
		got, err := program.Render(ctx, in, script.Limits{})
		if err != nil {
			wrong = append(wrong, step+err.Error())
			continue
		}
		for _, d := range compare(c.Expected[i], got, in) {
			wrong = append(wrong, step+d)
		}
		again, err := program.Render(ctx, in, script.Limits{})
		if err != nil || !reflect.DeepEqual(got, again) {
			wrong = append(wrong, step+"a second run gives another result")
		}
	}
	return wrong
}

// compare looks at what a script decides: spec, labels and annotations.
func compare(want map[string]any, got script.Output, in script.Input) []string {
	if got.Labels == nil {
		got.Labels = in.Labels
	}
	if got.Annotations == nil {
		got.Annotations = in.Annotations
	}
	var diffs []string
	diffs = append(diffs, differences("spec", normal(want["spec"]), normal(got.Spec))...)
	diffs = append(diffs, differences("labels", strs(at(want, "metadata", "labels")), normal(got.Labels))...)
	return append(diffs, differences("annotations", strs(at(want, "metadata", "annotations")), normal(got.Annotations))...)
}

func strs(v any) any { return normal(stringMap(v)) }

// normal brings a value to the types that JSON has in Go; no map is an empty one.
func normal(v any) any {
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

// differences lists where two JSON values differ, by path.
func differences(path string, want, got any) []string {
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
				out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
			}
			return out
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, compact(want), compact(got))}
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
			out = append(out, fmt.Sprintf("%s.%s: want nothing, got %s", path, k, compact(g)))
		case !present:
			out = append(out, fmt.Sprintf("%s.%s: want %s, got nothing", path, k, compact(w)))
		default:
			out = append(out, differences(path+"."+k, w, g)...)
		}
	}
	return out
}

func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

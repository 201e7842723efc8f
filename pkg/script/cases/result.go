package cases

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"sluice.dev/sluice/pkg/script"
)

// Result is the result of one step of a case.
type Result struct {
	Step   int // from 1 on; 0 for an error of the case as a whole
	Input  script.Input
	Output script.Output // including labels and annotations that the script did not set
	Err    error         // why there is no output
	// Want and Got are the compared parts of the expected object and of the script's
	// object; nil if there is no such object.
	Want, Got map[string]any
	Wrong     []string // differences from the expected object, one sentence each; none means that the step passed
}

// Run runs each step of the case twice; both runs must give the same.
func (c Case) Run(ctx context.Context, source script.Source) []Result {
	if expected := max(len(c.Expected), len(c.Created)); c.Refused == "" && (expected != len(c.Steps) || c.Class == "" && len(c.Expected) != expected) {
		return []Result{{Wrong: []string{fmt.Sprintf("the case has %d steps and expects %d objects; write one object per step", len(c.Steps), len(c.Expected))}}}
	}
	var results []Result
	for i, in := range c.Steps {
		r := Result{Step: i + 1, Input: in}
		if r.Output, r.Err = c.Render(ctx, source, in); r.Err == nil {
			r.Got = comparedPart(ShapedObject(c.Original, r.Output))
		}
		if c.Refused != "" {
			r.Wrong = c.checkRefusal(r.Err)
		} else {
			r.Want = comparedPart(c.expectedObject(i))
			r.Wrong = c.outputDifferences(ctx, source, r)
		}
		results = append(results, r)
	}
	return results
}

func (c Case) outputDifferences(ctx context.Context, source script.Source, r Result) []string {
	if r.Err != nil {
		return []string{r.Err.Error()}
	}
	wrong := append(compareOutput(c.expectedObject(r.Step-1), r.Output), listDifferences("created", toJSON(c.expectedCreated(r.Step-1)), toJSON(orNone(r.Output.Create)))...)
	if again, err := c.Render(ctx, source, r.Input); err != nil || !reflect.DeepEqual(r.Output, again) {
		wrong = append(wrong, "a second run gives another result")
	}
	return wrong
}

// expectedObject is the object that a step must make of the original.
func (c Case) expectedObject(step int) map[string]any {
	if c.Class != "" {
		return c.Original
	}
	return c.Expected[step]
}

func (c Case) expectedCreated(step int) []map[string]any {
	if step < len(c.Created) {
		return orNone(c.Created[step])
	}
	return orNone(nil)
}

func orNone(list []map[string]any) []map[string]any {
	if list == nil {
		return []map[string]any{}
	}
	return list
}

// Render runs the script; the copies of an Ingress count as created objects.
func (c Case) Render(ctx context.Context, source script.Source, in script.Input) (script.Output, error) {
	if c.Class == "" {
		return RenderScript(ctx, source, in)
	}
	copies, err := source.RenderIngress(ctx, in, script.Limits{})
	out := script.Output{Spec: in.Spec, Labels: in.Labels, Annotations: in.Annotations}
	for _, one := range copies {
		object := map[string]any{"annotations": one.Annotations}
		if one.Suffix != "" {
			object["suffix"] = one.Suffix
		}
		out.Create = append(out.Create, object)
	}
	return out, err
}

func (c Case) checkRefusal(err error) []string {
	switch {
	case err == nil:
		return []string{"it is not refused"}
	case !strings.Contains(err.Error(), c.Refused):
		return []string{fmt.Sprintf("it is refused because %s, want %s", err, c.Refused)}
	}
	return nil
}

// RenderScript runs a script. Labels and annotations that it does not set come from
// the input.
func RenderScript(ctx context.Context, source script.Source, in script.Input) (script.Output, error) {
	out, err := source.Render(ctx, in, script.Limits{})
	if err != nil {
		return script.Output{}, err
	}
	if out.Labels == nil {
		out.Labels = in.Labels
	}
	if out.Annotations == nil {
		out.Annotations = in.Annotations
	}
	return out, nil
}

// comparedPart is the part of an object that cases compare.
func comparedPart(of map[string]any) map[string]any {
	part, metadata := map[string]any{}, map[string]any{}
	if spec, ok := of["spec"]; ok {
		part["spec"] = toJSON(spec)
	}
	for _, name := range []string{"labels", "annotations"} {
		if pairs := stringMap(fieldAt(of, "metadata", name)); len(pairs) > 0 {
			metadata[name] = toJSON(pairs)
		}
	}
	if len(metadata) > 0 {
		part["metadata"] = metadata
	}
	return part
}

// ShapedObject is an original, without its status, as a script has shaped it.
func ShapedObject(original map[string]any, out script.Output) map[string]any {
	metadata := maps.Clone(toMap(original["metadata"]))
	if metadata == nil {
		metadata = map[string]any{}
	}
	for name, pairs := range map[string]map[string]string{"labels": out.Labels, "annotations": out.Annotations} {
		delete(metadata, name)
		if len(pairs) > 0 {
			metadata[name] = toJSON(pairs)
		}
	}
	shaped := maps.Clone(original)
	delete(shaped, "status")
	shaped["metadata"] = metadata
	delete(shaped, "spec")
	if out.Spec != nil {
		shaped["spec"] = toJSON(out.Spec)
	}
	return shaped
}

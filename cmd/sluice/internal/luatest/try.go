package luatest

import (
	"context"
	"fmt"
	"maps"

	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
	"sluice.dev/sluice/pkg/traffic"
)

// Trial is the result of a script for one object at one step. The objects have no status, because a script cannot change it.
type Trial struct {
	Before, After map[string]any
	Created       []map[string]any // the objects that the script creates for the step
	Refused       string           // the reason why After is missing
}

// Step is a step that a user describes by flags instead of a Rollout.
type Step struct {
	Service string
	Shared  bool // both versions serve behind Service
	Weight  *int
	Headers [][2]string // name and value; all must match
}

// ToRollout returns a Rollout with this one step, as a test case would contain it.
func (s Step) ToRollout() map[string]any {
	step := map[string]any{}
	if s.Weight != nil {
		step["traffic"] = fmt.Sprintf("%d%%", *s.Weight)
	}
	if len(s.Headers) > 0 {
		var headers []any
		for _, h := range s.Headers {
			headers = append(headers, map[string]any{"type": "Exact", "name": h[0], "value": h[1]})
		}
		step["matches"] = []any{map[string]any{"headers": headers}}
	}
	return map[string]any{"spec": map[string]any{"strategy": map[string]any{"canary": map[string]any{
		"steps": []any{step}, "trafficRoutings": []any{map[string]any{"service": s.Service}}, "disableGenerateCanaryService": s.Shared,
	}}}}
}

// StepInput returns the input of a script for an object at a step of a Rollout, or of a TrafficRouting, which has one step.
func StepInput(manifest, object map[string]any, step int) (script.Input, error) {
	var inputs []script.Input
	var err error
	if kind, _ := manifest["kind"].(string); kind == "TrafficRouting" {
		inputs, err = cases.StepInputs(nil, manifest, object)
	} else {
		inputs, err = cases.StepInputs(manifest, nil, object)
	}
	if err != nil {
		return script.Input{}, err
	}
	if step < 1 || step > len(inputs) {
		return script.Input{}, fmt.Errorf("--step %d: there are steps 1 to %d", step, len(inputs))
	}
	return inputs[step-1], nil
}

// TryScript runs the script of a file on an object. in is the [StepInput] of the object.
func TryScript(ctx context.Context, file string, object map[string]any, in script.Input) (Trial, error) {
	source, err := compileFile(file)
	if err != nil {
		return Trial{}, err
	}
	t := Trial{Before: maps.Clone(object)}
	delete(t.Before, "status")
	run := func(in script.Input) (script.Output, error) { return cases.RenderScript(ctx, source, in) }
	if isClass(file) {
		run = traffic.IngressScript(ctx, source, nil)
	}
	out, err := run(in)
	if err == nil {
		err = traffic.CheckOutput(in, out)
	}
	if err != nil {
		t.Refused = err.Error()
		return t, nil
	}
	if isClass(file) { // the script of a class does not change labels and annotations
		out.Labels, out.Annotations = in.Labels, in.Annotations
	}
	t.After, t.Created = cases.ShapedObject(object, out), out.Create
	return t, nil
}

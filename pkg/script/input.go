package script

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// APILevel is obj.apiLevel: scripts may ask which additions to OpenKruise's
// input they can rely on.
const APILevel = 2

// NoWeight is the CanaryWeight of a step without traffic.
const NoWeight = -1

// Input is what a script for a custom resource is asked: one step of a rollout
// and the original of the object that it shapes.
type Input struct {
	Spec        any               // the original spec of the object, JSON-like
	Labels      map[string]string // the original labels
	Annotations map[string]string // the original annotations, without ours

	CanaryWeight  int   // 0 to 100, or NoWeight
	Matches       []any // the step's matches as JSON; nil when the step has none
	CanaryService string
	StableService string // equal to CanaryService when both versions share one Service

	RequestHeaderModifier any // as JSON; nil when absent

	// Additions to OpenKruise's input.
	Namespace        string         // of the object; "" when unknown
	PatchPodMetadata map[string]any // labels and annotations that only canary pods carry; nil when none
}

// Object is the value of the global obj. The names are those of OpenKruise;
// obj.stableWeight is 101 in a step without traffic, as it is there. Namespace,
// patchPodMetadata and apiLevel are additions.
func (in Input) Object() map[string]any {
	data := map[string]any{}
	if in.Spec != nil {
		data["spec"] = in.Spec
	}
	if len(in.Labels) > 0 {
		data["labels"] = in.Labels
	}
	if len(in.Annotations) > 0 {
		data["annotations"] = in.Annotations
	}
	obj := map[string]any{
		"apiLevel":      int64(APILevel),
		"data":          data,
		"canaryWeight":  int64(in.CanaryWeight),
		"stableWeight":  int64(100 - in.CanaryWeight),
		"canaryService": in.CanaryService,
		"stableService": in.StableService,
	}
	if in.Matches != nil {
		obj["matches"] = in.Matches
	}
	if in.RequestHeaderModifier != nil {
		obj["requestHeaderModifier"] = in.RequestHeaderModifier
	}
	if in.Namespace != "" {
		obj["namespace"] = in.Namespace
	}
	if in.PatchPodMetadata != nil {
		obj["patchPodMetadata"] = in.PatchPodMetadata
	}
	return obj
}

// Output is what a script wants the object to be. Nil labels or annotations
// mean that the script did not mention them: the originals stay.
type Output struct {
	Spec        any
	Labels      map[string]string
	Annotations map[string]string
}

// Render runs the program on in and reads what it returns.
func (p *Program) Render(ctx context.Context, in Input, limits Limits) (Output, error) {
	v, err := p.Run(ctx, in.Object(), limits)
	if err != nil {
		return Output{}, err
	}
	out, err := parseOutput(v)
	if err == nil && out.Spec == nil && in.Spec != nil {
		err = fmt.Errorf("the returned table has no spec; return obj.data, or a table with spec, labels and annotations")
	}
	if err != nil {
		return Output{}, &Error{Script: p.name, Kind: KindOutput, Message: shorten(err.Error())}
	}
	return out, nil
}

func parseOutput(v any) (Output, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return Output{}, fmt.Errorf("expect table output from Lua script, not %s", luaType(v))
	}
	out := Output{Spec: table["spec"]}
	var err error
	if out.Labels, err = parseStrings(table, "labels"); err != nil {
		return Output{}, err
	}
	if out.Annotations, err = parseStrings(table, "annotations"); err != nil {
		return Output{}, err
	}
	return out, nil
}

func parseStrings(table map[string]any, field string) (map[string]string, error) {
	v := table[field]
	if v == nil {
		return nil, nil
	}
	if list, ok := v.([]any); ok && len(list) == 0 {
		return map[string]string{}, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s in the returned table must be a table of strings, not %s", field, luaType(v))
	}
	out := make(map[string]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s, ok := m[k].(string)
		if !ok {
			return nil, fmt.Errorf("%s in the returned table must hold strings only: use tostring for %q", field, k)
		}
		out[k] = s
	}
	return out, nil
}

func luaType(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "boolean"
	case string:
		return "string"
	case map[string]any:
		return "table"
	case []any:
		return "a list"
	}
	return "number"
}

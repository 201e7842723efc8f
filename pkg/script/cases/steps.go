package cases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sluice.dev/sluice/pkg/script"
)

// rolloutSteps reads the steps of a Rollout of either version. The manifest may lack
// defaults and validation.
func rolloutSteps(rollout map[string]any) ([]script.Input, error) {
	strategy := toMap(fieldAt(rollout, "spec", "strategy", "canary"))
	if strategy == nil {
		strategy = toMap(fieldAt(rollout, "spec", "strategy", "blueGreen"))
	}
	routings := toList(strategy["trafficRoutings"])
	if len(routings) == 0 {
		return nil, fmt.Errorf("the rollout has no trafficRoutings; add them to its strategy")
	}
	common := routingInput(toMap(routings[0]))
	if isTrue(strategy["disableGenerateCanaryService"]) {
		common.CanaryService = common.StableService
	}
	common.Namespace = toString(fieldAt(rollout, "metadata", "namespace"))
	if patch := toMap(strategy["patchPodTemplateMetadata"]); len(patch) > 0 {
		common.PatchPodMetadata = patch
	}
	var inputs []script.Input
	for i, s := range toList(strategy["steps"]) {
		in, err := stepInput(common, toMap(s))
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		in.Stage, in.Step = script.StageStep, i+1
		inputs = append(inputs, in)
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("the rollout has no steps; add them to its strategy")
	}
	return inputs, nil
}

// routingInput reads one routing. The canary has a Service of its own unless the
// routing says that both versions share one, in the spelling of the first design.
func routingInput(routing map[string]any) script.Input {
	stable := toString(routing["service"])
	in := script.Input{StableService: stable, CanaryService: stable + "-canary"}
	if create, set := routing["createCanaryService"]; set && !isTrue(create) {
		in.CanaryService = stable
	}
	for _, name := range toList(routing["routes"]) {
		in.Routes = append(in.Routes, toString(name))
	}
	if tag := toMap(routing["tag"]); tag != nil {
		in.Tag = &script.Tag{Header: toString(tag["header"]), Value: toString(tag["value"]), Label: toString(tag["label"])}
	}
	return in
}

// trafficRoutingSteps reads a TrafficRouting, whose versions share a Service.
func trafficRoutingSteps(routing map[string]any) ([]script.Input, error) {
	refs := toList(fieldAt(routing, "spec", "objectRef"))
	if len(refs) == 0 {
		return nil, fmt.Errorf("the trafficRouting has no objectRef; add one")
	}
	common := routingInput(toMap(refs[0]))
	common.CanaryService = common.StableService
	common.Namespace = toString(fieldAt(routing, "metadata", "namespace"))
	in, err := stepInput(common, toMap(fieldAt(routing, "spec", "strategy")))
	if err != nil {
		return nil, fmt.Errorf("spec.strategy: %w", err)
	}
	in.Stage = script.StageRouting
	return []script.Input{in}, nil
}

func stepInput(common script.Input, s map[string]any) (script.Input, error) {
	in := common
	in.CanaryWeight = script.NoWeight
	weight := strings.TrimSuffix(toString(s["traffic"]), "%")
	if number, ok := s["weight"].(json.Number); ok && weight == "" {
		weight = number.String()
	}
	if weight != "" {
		percent, err := strconv.ParseFloat(weight, 64)
		if err != nil || percent < 0 || percent > 100 {
			return in, fmt.Errorf("traffic %q is no percentage such as \"20%%\"", weight)
		}
		in.SetShare(percent)
	}
	if mirror := toMap(s["mirror"]); mirror != nil {
		percent, err := strconv.ParseFloat(cmp.Or(strings.TrimSuffix(toString(mirror["traffic"]), "%"), "100"), 64)
		if err != nil {
			return in, fmt.Errorf("mirror.traffic %q is no percentage", toString(mirror["traffic"]))
		}
		in.Mirror = percent
	}
	if matches, ok := s["matches"].([]any); ok && len(matches) > 0 {
		in.SetMatches(matches)
	}
	if modifier := toMap(s["requestHeaderModifier"]); modifier != nil {
		in.RequestHeaderModifier = modifier
	}
	if in.Tag != nil {
		in.SetTag(*in.Tag)
	}
	return in, nil
}

func fieldAt(v any, fields ...string) any {
	for _, f := range fields {
		v = toMap(v)[f]
	}
	return v
}

func toMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func toList(v any) []any {
	l, _ := v.([]any)
	return l
}

func toString(v any) string {
	s, _ := v.(string)
	return s
}

func isTrue(v any) bool { return v == true }

func stringMap(v any) map[string]string {
	m := toMap(v)
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = toString(v)
	}
	return out
}

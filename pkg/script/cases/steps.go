package cases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sluice.dev/sluice/pkg/script"
)

// rolloutSteps reads the steps of a Rollout of either version, as it is
// written: nobody has defaulted or validated it.
func rolloutSteps(rollout map[string]any) ([]script.Input, error) {
	strategy := object(at(rollout, "spec", "strategy", "canary"))
	if strategy == nil {
		strategy = object(at(rollout, "spec", "strategy", "blueGreen"))
	}
	routings := list(strategy["trafficRoutings"])
	if len(routings) == 0 {
		return nil, fmt.Errorf("the rollout has no trafficRoutings; add them to its strategy")
	}
	common := services(object(routings[0]))
	if isTrue(strategy["disableGenerateCanaryService"]) {
		common.CanaryService = common.StableService
	}
	common.Namespace = text(at(rollout, "metadata", "namespace"))
	if patch := object(strategy["patchPodTemplateMetadata"]); len(patch) > 0 {
		common.PatchPodMetadata = patch
	}
	var inputs []script.Input
	for i, s := range list(strategy["steps"]) {
		in, err := step(common, object(s))
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

// services: the canary has a Service of its own unless the routing says that
// both versions share one, in the spelling of the first design.
func services(routing map[string]any) script.Input {
	stable := text(routing["service"])
	in := script.Input{StableService: stable, CanaryService: stable + "-canary"}
	if create, set := routing["createCanaryService"]; set && !isTrue(create) {
		in.CanaryService = stable
	}
	for _, name := range list(routing["routes"]) {
		in.Routes = append(in.Routes, text(name))
	}
	if tag := object(routing["tag"]); tag != nil {
		in.Tag = &script.Tag{Header: text(tag["header"]), Value: text(tag["value"]), Label: text(tag["label"])}
	}
	return in
}

// trafficRoutingSteps reads a TrafficRouting, whose versions share a Service.
func trafficRoutingSteps(routing map[string]any) ([]script.Input, error) {
	refs := list(at(routing, "spec", "objectRef"))
	if len(refs) == 0 {
		return nil, fmt.Errorf("the trafficRouting has no objectRef; add one")
	}
	common := services(object(refs[0]))
	common.CanaryService = common.StableService
	common.Namespace = text(at(routing, "metadata", "namespace"))
	in, err := step(common, object(at(routing, "spec", "strategy")))
	if err != nil {
		return nil, fmt.Errorf("spec.strategy: %w", err)
	}
	in.Stage = script.StageRouting
	return []script.Input{in}, nil
}

func step(common script.Input, s map[string]any) (script.Input, error) {
	in := common
	in.CanaryWeight = script.NoWeight
	weight := strings.TrimSuffix(text(s["traffic"]), "%")
	if number, ok := s["weight"].(json.Number); ok && weight == "" {
		weight = number.String()
	}
	if weight != "" {
		percent, err := strconv.ParseFloat(weight, 64)
		if err != nil || percent < 0 || percent > 100 {
			return in, fmt.Errorf("traffic %q is no percentage such as \"20%%\"", weight)
		}
		in.Share(percent)
	}
	if mirror := object(s["mirror"]); mirror != nil {
		percent, err := strconv.ParseFloat(cmp.Or(strings.TrimSuffix(text(mirror["traffic"]), "%"), "100"), 64)
		if err != nil {
			return in, fmt.Errorf("mirror.traffic %q is no percentage", text(mirror["traffic"]))
		}
		in.Mirror = percent
	}
	if matches, ok := s["matches"].([]any); ok && len(matches) > 0 {
		in.Match(matches)
	}
	if modifier := object(s["requestHeaderModifier"]); modifier != nil {
		in.RequestHeaderModifier = modifier
	}
	if in.Tag != nil {
		in.Mark(*in.Tag)
	}
	return in, nil
}

func at(v any, fields ...string) any {
	for _, f := range fields {
		v = object(v)[f]
	}
	return v
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func isTrue(v any) bool { return v == true }

func stringMap(v any) map[string]string {
	m := object(v)
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = text(v)
	}
	return out
}

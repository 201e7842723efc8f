package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file is about the traffic policies of a DestinationRule: one of the host, one of each subset, and within each of them one of each port.

// originatesTLS reports whether a DestinationRule has requests carried over TLS by certificates that are not the mesh's own.
func originatesTLS(rule map[string]any) bool {
	spec, _ := rule["spec"].(map[string]any)
	subsets, _ := spec["subsets"].([]any)
	for _, of := range append([]any{spec}, subsets...) {
		of, _ := of.(map[string]any)
		policy, _ := of["trafficPolicy"].(map[string]any)
		for _, settings := range append([]any{policy}, portSettings(policy)...) {
			settings, _ := settings.(map[string]any)
			tls, _ := settings["tls"].(map[string]any)
			if mode := text(tls, "mode"); mode == "SIMPLE" || mode == "MUTUAL" {
				return true
			}
		}
	}
	return false
}

// subsetsOf are the subsets of the stable Service that an object leads to, sorted; "" stands for the Service as a whole.
func subsetsOf(spec any, e entry) []string {
	var subsets []string
	for b := range backends(spec) {
		if e.owns(b, e.Service) {
			subsets = append(subsets, b.subset)
		}
	}
	slices.Sort(subsets)
	return slices.Compact(subsets)
}

// foldSubsets makes the traffic policy of some subsets that of the whole host, and drops all subsets: no route leads to a subset of the canary Service,
// and the labels of a stable subset may select no pod of it.
func foldSubsets(spec map[string]any, of []string) error {
	subsets, _ := spec["subsets"].([]any)
	delete(spec, "subsets")
	if len(of) == 0 {
		return nil
	}
	host := spec["trafficPolicy"]
	var folded []any
	for _, name := range of {
		policy := host
		for _, s := range subsets {
			if s, _ := s.(map[string]any); text(s, "name") == name && s["trafficPolicy"] != nil {
				policy = subsetPolicy(host, s["trafficPolicy"])
			}
		}
		folded = append(folded, policy)
	}
	for _, policy := range folded {
		if !equal(policy, folded[0]) {
			return fmt.Errorf("its traffic policies for %s differ, and the canary has no subsets", strings.Join(quoted(of), " and "))
		}
	}
	if folded[0] != nil {
		spec["trafficPolicy"] = folded[0]
	}
	return nil
}

func quoted(subsets []string) []string {
	var all []string
	for _, name := range subsets {
		if name == "" {
			all = append(all, "the host")
		} else {
			all = append(all, "the subset "+name)
		}
	}
	return all
}

const portLevelSettings = "portLevelSettings"

func portSettings(policy map[string]any) []any {
	settings, _ := policy[portLevelSettings].([]any)
	return settings
}

// subsetPolicy is the traffic policy of a subset as Istio applies it: what the subset says takes the place of what the host says, field by field, for a
// port that the host has settings for as well. Settings of the subset for a port stand alone.
func subsetPolicy(host, subset any) map[string]any {
	of, _ := host.(map[string]any)
	own, _ := subset.(map[string]any)
	plainly := maps.Clone(own)
	delete(plainly, portLevelSettings)
	policy := maps.Clone(of)
	if policy == nil {
		policy = map[string]any{}
	}
	delete(policy, portLevelSettings)
	maps.Copy(policy, plainly)
	ports := slices.Clone(portSettings(own))
	for _, settings := range portSettings(of) {
		settings, _ := settings.(map[string]any)
		if slices.ContainsFunc(ports, func(s any) bool { return equal(portOf(s), settings["port"]) }) {
			continue
		}
		settings = maps.Clone(settings)
		maps.Copy(settings, plainly)
		ports = append(ports, settings)
	}
	if len(ports) > 0 {
		policy[portLevelSettings] = ports
	}
	return policy
}

func portOf(settings any) any {
	s, _ := settings.(map[string]any)
	return s["port"]
}

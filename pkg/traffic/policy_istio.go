package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file is about the traffic policies of a DestinationRule: one of the host, one of each subset, and within each of them one of each port.

// hasTrafficPolicy reports whether a DestinationRule has a traffic policy, and not only subsets.
func hasTrafficPolicy(rule map[string]any) bool {
	spec, _ := rule["spec"].(map[string]any)
	subsets, _ := spec["subsets"].([]any)
	return slices.ContainsFunc(append([]any{spec}, subsets...), func(of any) bool {
		o, _ := of.(map[string]any)
		return o["trafficPolicy"] != nil
	})
}

// plainByRule compares two DestinationRules port by port. It reads the traffic policy of the host, because no route leads to a subset of the canary Service. Proxies
// of the mesh use TLS among themselves without a rule, unless a rule disables it.
func plainByRule(copied, canary map[string]any) bool {
	stable, own := modesOf(copied), modesOf(canary)
	ports := maps.Clone(stable)
	maps.Copy(ports, own)
	for port := range ports {
		is, should := modeAt(own, port), modeAt(stable, port)
		originates := should == "SIMPLE" || should == "MUTUAL"
		if originates && is != "SIMPLE" && is != "MUTUAL" || should == "ISTIO_MUTUAL" && is == "DISABLE" {
			return true
		}
	}
	return false
}

// modesOf returns the TLS modes in the host's traffic policy of a DestinationRule, by port; "" stands for all other ports.
func modesOf(rule map[string]any) map[string]string {
	spec, _ := rule["spec"].(map[string]any)
	policy, _ := spec["trafficPolicy"].(map[string]any)
	modes := map[string]string{"": modeOf(policy)}
	for _, settings := range portSettings(policy) {
		s, _ := settings.(map[string]any)
		modes[jsonOf(s["port"])] = modeOf(s)
	}
	return modes
}

func modeOf(settings map[string]any) string {
	tls, _ := settings["tls"].(map[string]any)
	return firstString(tls, "mode")
}

func modeAt(modes map[string]string, port string) string {
	if mode, own := modes[port]; own {
		return mode
	}
	return modes[""]
}

// SubsetsOf returns the subsets of a Service of a namespace that an object leads to, sorted; "" stands for the Service as a whole.
func SubsetsOf(spec any, service, namespace string) []string {
	var subsets []string
	for b := range backendsIn(spec) {
		if (serviceRef{service, namespace}).mentionedIn(b.service) {
			subsets = append(subsets, b.subset)
		}
	}
	slices.Sort(subsets)
	return slices.Compact(subsets)
}

// subsetsOf returns the subsets of the stable Service that this object and others lead to.
func (p *Plan) subsetsOf(e entry) []string {
	all := append(SubsetsOf(p.original.Spec, e.Service, e.Namespace), p.rel.Subsets[e.Service]...)
	slices.Sort(all)
	return slices.Compact(all)
}

// foldSubsets gives the host the traffic policy of the subsets that routes lead to, and removes all subsets. No route leads to a subset of the canary Service, and
// the labels of a stable subset may select no pod of the canary.
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
			if s, _ := s.(map[string]any); firstString(s, "name") == name && s["trafficPolicy"] != nil {
				policy = subsetPolicy(host, s["trafficPolicy"])
			}
		}
		folded = append(folded, policy)
	}
	for _, policy := range folded {
		if !equalJSON(policy, folded[0]) {
			return fmt.Errorf("its traffic policies for %s differ, and the canary has no subsets", strings.Join(describeSubsets(of), " and "))
		}
	}
	if folded[0] != nil {
		spec["trafficPolicy"] = folded[0]
	}
	return nil
}

func describeSubsets(subsets []string) []string {
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

// subsetPolicy returns the traffic policy of a subset as Istio applies it. A field of the subset replaces the same field of the host, and the same field
// in the host's settings for a port. The subset's settings for a port replace all others for that port.
func subsetPolicy(host, subset any) map[string]any {
	of, _ := host.(map[string]any)
	own, _ := subset.(map[string]any)
	fields, portFields := maps.Clone(own), map[string]any{}
	delete(fields, portLevelSettings)
	for _, key := range []string{"connectionPool", "loadBalancer", "outlierDetection", "tls"} { // the fields that settings for a port can have
		if own[key] != nil {
			portFields[key] = own[key]
		}
	}
	policy := maps.Clone(of)
	if policy == nil {
		policy = map[string]any{}
	}
	delete(policy, portLevelSettings)
	maps.Copy(policy, fields)
	ports := slices.Clone(portSettings(own))
	for _, settings := range portSettings(of) {
		settings, _ := settings.(map[string]any)
		if slices.ContainsFunc(ports, func(s any) bool { return equalJSON(portOf(s), settings["port"]) }) {
			continue
		}
		settings = maps.Clone(settings)
		maps.Copy(settings, portFields)
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

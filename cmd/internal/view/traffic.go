package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/traffic"
)

func (d *drawing) drawTraffic() {
	if len(d.Routes) == 0 {
		return
	}
	d.addSection("Traffic")
	for _, route := range d.Routes {
		d.drawRoute(route)
	}
}

func (d *drawing) drawRoute(route Route) {
	if route.Object == nil {
		d.addLine("%s %s  %s", route.Kind, route.Name, d.ink.Red("does not exist"))
		return
	}
	note := "as its owner wrote it"
	if releases := traffic.ReleasesOn(route.Object); len(releases) > 0 {
		var names, others []string
		for _, r := range releases {
			if r.Kind == "" {
				names = append(names, r.Name)
			} else {
				others = append(others, r.Kind+" "+r.Name)
			}
		}
		if len(names) > 0 {
			others = append([]string{"the release of " + strings.Join(names, ", ")}, others...)
		}
		note = "shaped by " + strings.Join(others, ", ")
	}
	d.addLine("%s %s  %s", route.Kind, route.Name, d.ink.Dim(note))
	for _, text := range DescribeRules(route.Object) {
		d.addLine("  %s", text)
	}
	if s := d.scriptOf(route); s != nil {
		d.addLine("  %s", d.ink.Dim(fmt.Sprintf("script %s, %s, hash %s", s.Source, s.Key, s.Hash)))
	}
}

func (d *drawing) scriptOf(route Route) *api.ScriptStatus {
	if d.Rollout.Status.Sluice == nil {
		return nil
	}
	for _, s := range d.Rollout.Status.Sluice.Scripts {
		if s.Object == route.Kind+"/"+route.Name || s.Object == route.Kind+" "+route.Name {
			return &s
		}
	}
	return nil
}

// DescribeRules describes each rule of a gateway object in one line: the matched requests, their destinations and shares. It reads the formats of Istio and of
// the Gateway API, and returns nothing for other objects.
func DescribeRules(obj *unstructured.Unstructured) []string {
	spec := fieldAs[fields](obj.Object["spec"])
	var lines []string
	for _, key := range []string{"http", "tls", "tcp", "rules"} {
		for i, r := range fieldAs[[]any](spec[key]) {
			rule := fieldAs[fields](r)
			lines = append(lines, fmt.Sprintf("%s[%d]  %s -> %s", key, i, describeRequests(rule), describeBackends(rule)))
		}
	}
	for _, s := range fieldAs[[]any](spec["subsets"]) {
		subset := fieldAs[fields](s)
		lines = append(lines, fmt.Sprintf("subset %s  %s", fieldAs[string](subset["name"]), joinPairs(fieldAs[fields](subset["labels"]))))
	}
	return lines
}

func describeRequests(rule map[string]any) string {
	matches := fieldAs[[]any](rule["match"])
	if len(matches) == 0 {
		matches = fieldAs[[]any](rule["matches"])
	}
	var texts []string
	for _, m := range matches {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(fieldAs[fields](m))) {
			parts = append(parts, conditionOn(key, fieldAs[fields](m)[key])...)
		}
		texts = append(texts, strings.Join(parts, " and "))
	}
	if len(texts) == 0 {
		return "all requests"
	}
	return strings.Join(texts, " or ")
}

// conditionOn describes one field of a match: a map of conditions, a list of them, or one condition.
func conditionOn(key string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		if op, value, ok := comparisonOf(v); ok {
			return []string{key + op + value}
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			prefix := ""
			if key != "headers" {
				prefix = key + "."
			}
			parts = append(parts, conditionOn(prefix+name, v[name])...)
		}
		return parts
	case []any:
		var parts []string
		for _, e := range v {
			name := fieldAs[string](fieldAs[fields](e)["name"])
			if op, value, ok := comparisonOf(fieldAs[fields](e)); ok {
				parts = append(parts, name+op+value)
			} else {
				parts = append(parts, key+"="+fmt.Sprint(e))
			}
		}
		return parts
	}
	return []string{fmt.Sprintf("%s=%v", key, v)}
}

func comparisonOf(m map[string]any) (op, value string, ok bool) {
	for _, c := range [][2]string{{"exact", "="}, {"prefix", "^="}, {"regex", "~"}} {
		if v, found := m[c[0]]; found {
			return c[1], fmt.Sprint(v), true
		}
	}
	kind, _ := m["type"].(string)
	if v, found := m["value"]; found {
		return release.MatchOperator(&kind), fmt.Sprint(v), true
	}
	return "", "", false
}

func describeBackends(rule map[string]any) string {
	targets := fieldAs[[]any](rule["route"])
	if len(targets) == 0 {
		targets = fieldAs[[]any](rule["backendRefs"])
	}
	var texts []string
	total := 0.0
	for _, t := range targets {
		total += toFloat(fieldAs[fields](t)["weight"])
	}
	for _, t := range targets {
		target := fieldAs[fields](t)
		name := fieldAs[string](target["name"])
		if destination := fieldAs[fields](target["destination"]); len(destination) > 0 {
			name = fieldAs[string](destination["host"])
			if subset := fieldAs[string](destination["subset"]); subset != "" {
				name += "/" + subset
			}
		}
		if len(targets) > 1 && total > 0 {
			name += fmt.Sprintf(" %.4g%%", 100*toFloat(target["weight"])/total)
		}
		texts = append(texts, name)
	}
	if len(texts) == 0 {
		for _, key := range []string{"redirect", "delegate", "directResponse"} {
			if rule[key] != nil {
				return key
			}
		}
		return "nowhere"
	}
	return strings.Join(texts, ", ")
}

func joinPairs(m map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, m[k]))
	}
	return strings.Join(parts, ",")
}

// fields is an object within a gateway object.
type fields = map[string]any

// fieldAs returns a field of a gateway object as a T, or the zero value for a missing field or another type.
func fieldAs[T any](v any) T {
	field, _ := v.(T)
	return field
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

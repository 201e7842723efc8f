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

func (d *drawing) traffic() {
	if len(d.Routes) == 0 {
		return
	}
	d.section("Traffic")
	for _, route := range d.Routes {
		d.route(route)
	}
}

func (d *drawing) route(route Route) {
	if route.Object == nil {
		d.line("%s %s  %s", route.Kind, route.Name, d.ink.Red("does not exist"))
		return
	}
	note := "as its owner wrote it"
	if releases := traffic.Releases(route.Object); len(releases) > 0 {
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
	d.line("%s %s  %s", route.Kind, route.Name, d.ink.Dim(note))
	for _, text := range Rules(route.Object) {
		d.line("  %s", text)
	}
	if s := d.script(route); s != nil {
		d.line("  %s", d.ink.Dim(fmt.Sprintf("script %s, %s, hash %s", s.Source, s.Key, s.Hash)))
	}
}

func (d *drawing) script(route Route) *api.ScriptStatus {
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

// Rules tells each rule of a gateway object in one line: which requests go where, with which share. It reads Istio's and the
// Gateway API's spelling, and says nothing about objects that it cannot read.
func Rules(obj *unstructured.Unstructured) []string {
	spec := object(obj.Object["spec"])
	var lines []string
	for _, key := range []string{"http", "tls", "tcp", "rules"} {
		for i, r := range list(spec[key]) {
			rule := object(r)
			lines = append(lines, fmt.Sprintf("%s[%d]  %s -> %s", key, i, requests(rule), backends(rule)))
		}
	}
	for _, s := range list(spec["subsets"]) {
		subset := object(s)
		lines = append(lines, fmt.Sprintf("subset %s  %s", text(subset["name"]), pairs(object(subset["labels"]))))
	}
	return lines
}

func requests(rule map[string]any) string {
	matches := list(rule["match"])
	if len(matches) == 0 {
		matches = list(rule["matches"])
	}
	var texts []string
	for _, m := range matches {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(object(m))) {
			parts = append(parts, conditionOn(key, object(m)[key])...)
		}
		texts = append(texts, strings.Join(parts, " and "))
	}
	if len(texts) == 0 {
		return "all requests"
	}
	return strings.Join(texts, " or ")
}

// conditionOn tells one field of a match: a map of conditions, a list of them, or one.
func conditionOn(key string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		if op, value, ok := comparison(v); ok {
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
			name := text(object(e)["name"])
			if op, value, ok := comparison(object(e)); ok {
				parts = append(parts, name+op+value)
			} else {
				parts = append(parts, key+"="+fmt.Sprint(e))
			}
		}
		return parts
	}
	return []string{fmt.Sprintf("%s=%v", key, v)}
}

func comparison(m map[string]any) (op, value string, ok bool) {
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

func backends(rule map[string]any) string {
	targets := list(rule["route"])
	if len(targets) == 0 {
		targets = list(rule["backendRefs"])
	}
	var texts []string
	total := 0.0
	for _, t := range targets {
		total += number(object(t)["weight"])
	}
	for _, t := range targets {
		target := object(t)
		name := text(target["name"])
		if destination := object(target["destination"]); len(destination) > 0 {
			name = text(destination["host"])
			if subset := text(destination["subset"]); subset != "" {
				name += "/" + subset
			}
		}
		if len(targets) > 1 && total > 0 {
			name += fmt.Sprintf(" %.4g%%", 100*number(target["weight"])/total)
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

func pairs(m map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, m[k]))
	}
	return strings.Join(parts, ",")
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

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

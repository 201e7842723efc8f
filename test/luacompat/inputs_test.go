package luacompat

import (
	"fmt"

	"sluice.dev/sluice/pkg/script"
)

// input is one input of a script.
type input struct {
	name string
	obj  map[string]any
}

type (
	object = map[string]any
	list   = []any
)

// step is a step of a release, with the fields that scripts see.
type step struct {
	name     string
	weight   int
	matches  list
	modifier object
}

func steps() []step {
	header := func(kind, name, value string) object { return object{"type": kind, "name": name, "value": value} }
	exact, regex := header("Exact", "user-agent", "pc"), header("RegularExpression", "name", ".*demo")
	cookie, untyped := header("Exact", "canary-by-cookie", "always"), object{"name": "x", "value": "y"}
	set := object{"set": list{object{"name": "x-canary", "value": "1"}, object{"name": "x-b", "value": "2"}}}
	all := object{"set": list{object{"name": "a", "value": "1"}}, "add": list{object{"name": "b", "value": "2"}}, "remove": list{"c", "d"}}
	out := []step{
		{"empty matches", 20, list{}, nil},
		{"a header", script.NoWeight, list{object{"headers": list{exact}}}, nil},
		{"a regular expression", script.NoWeight, list{object{"headers": list{regex}}}, nil},
		{"a header without type", script.NoWeight, list{object{"headers": list{untyped}}}, nil},
		{"a cookie", script.NoWeight, list{object{"headers": list{cookie}}}, nil},
		{"two headers", script.NoWeight, list{object{"headers": list{exact, regex}}}, nil},
		{"two matches", script.NoWeight, list{object{"headers": list{exact}}, object{"headers": list{regex}}}, nil},
		{"a query parameter", script.NoWeight, list{object{"queryParams": list{exact}}}, nil},
		{"a query parameter by regular expression", script.NoWeight, list{object{"queryParams": list{regex}}}, nil},
		{"headers and query parameters", script.NoWeight, list{object{"headers": list{exact}, "queryParams": list{regex}}}, nil},
		{"a path", script.NoWeight, list{object{"path": object{"type": "PathPrefix", "value": "/v2"}}}, nil},
		{"an exact path", script.NoWeight, list{object{"path": object{"type": "Exact", "value": "/v2"}}}, nil},
		{"a path by regular expression", script.NoWeight, list{object{"path": object{"type": "RegularExpression", "value": "/v[2-3]"}}}, nil},
		{"a path and a header", script.NoWeight, list{object{"path": object{"type": "Exact", "value": "/"}, "headers": list{exact}}}, nil},
		{"a match of nothing", script.NoWeight, list{object{}}, nil},
		{"a weight and a header", 30, list{object{"headers": list{exact}}}, nil},
		{"headers set", script.NoWeight, list{object{"headers": list{exact}}}, set},
		{"headers set, added and removed", script.NoWeight, list{object{"headers": list{exact}}}, all},
		{"a weight and headers set", 20, nil, set},
		{"a weight and headers added", 20, nil, object{"add": list{object{"name": "b", "value": "2"}}}},
	}
	for _, w := range []int{script.NoWeight, 0, 1, 20, 33, 50, 99, 100} {
		out = append(out, step{fmt.Sprintf("weight %d", w), w, nil, nil})
	}
	return out
}

// specs returns specs of VirtualServices and DestinationRules, and one of neither.
func specs() map[string]object {
	to := func(host string, more ...any) object {
		out := object{"destination": object{"host": host}}
		for i := 0; i < len(more); i += 2 {
			out[more[i].(string)] = more[i+1]
		}
		return out
	}
	rule := func(routes ...any) object { return object{"route": routes} }
	matched := object{"match": list{object{"uri": object{"prefix": "/api"}}}, "route": list{to("svc")}}
	return map[string]object{
		"one route":              {"hosts": list{"*"}, "gateways": list{"gw"}, "http": list{rule(to("svc"))}},
		"a weighted route":       {"http": list{rule(to("svc", "weight", int64(100)))}},
		"two versions":           {"http": list{rule(to("svc", "weight", int64(80)), to("other", "weight", int64(20)))}},
		"two routes to stable":   {"http": list{rule(to("svc", "weight", int64(50)), to("svc", "weight", int64(50)))}},
		"three without weights":  {"http": list{rule(to("svc"), to("a"), to("b"))}},
		"a rule with a match":    {"http": list{matched}},
		"rules with and without": {"http": list{matched, rule(to("svc")), rule(to("other"))}},
		"a full host name":       {"http": list{rule(to("svc.shop.svc.cluster.local"))}},
		"another namespace":      {"http": list{rule(to("svc.other"))}},
		"another service":        {"http": list{rule(to("other"))}},
		"tcp":                    {"tcp": list{rule(to("svc", "weight", int64(100)))}},
		"tls":                    {"tls": list{rule(to("svc"))}},
		"all protocols":          {"http": list{rule(to("svc"))}, "tcp": list{rule(to("svc"))}, "tls": list{rule(to("svc"))}},
		"a redirect":             {"http": list{object{"redirect": object{"uri": "/"}}, rule(to("svc"))}},
		"no rules":               {"hosts": list{"*"}},
		"empty rules":            {"hosts": list{"*"}, "http": list{}, "exportTo": list{}},
		"empty parts":            {"http": list{object{"route": list{to("svc")}, "retries": object{}, "corsPolicy": object{"allowOrigins": list{}}}}},
		"ports and headers": {"http": list{object{
			"name": "r", "timeout": "1s", "retries": object{"attempts": int64(3)},
			"route": list{object{"destination": object{"host": "svc", "port": object{"number": int64(80)}, "subset": "v1"}, "headers": object{"request": object{"set": object{"a": "b"}}}}},
		}}},
		"a route without destination": {"http": list{rule(object{"weight": int64(1)})}},
		"fractions":                   {"http": list{rule(to("svc", "weight", 12.5))}},
		"no subsets":                  {"host": "svc"},
		"empty subsets":               {"host": "svc", "subsets": list{}},
		"subsets":                     {"host": "svc", "subsets": list{object{"name": "v1", "labels": object{"version": "v1"}}}, "trafficPolicy": object{"loadBalancer": object{"simple": "RANDOM"}}},
	}
}

func customInputs() []input {
	var out []input
	for name, spec := range specs() {
		for _, s := range steps() {
			for _, canary := range []string{"svc-canary", "svc"} {
				in := script.Input{
					Spec: spec, Labels: map[string]string{"app": "demo"}, CanaryWeight: s.weight, Matches: s.matches,
					StableService: "svc", CanaryService: canary,
				}
				if s.modifier != nil {
					in.RequestHeaderModifier = s.modifier
				}
				out = append(out, input{fmt.Sprintf("%s, %s, to %s", name, s.name, canary), in.LuaObject()})
			}
		}
	}
	return out
}

// ingressInputs have the form that OpenKruise passes to scripts of Ingress classes: the weight is text, and scripts
// return only annotations.
func ingressInputs() []input {
	annotations := map[string]object{
		"none":       nil,
		"foreign":    {"keep": "1", "kubernetes.io/ingress.class": "nginx"},
		"of a step":  {"nginx.ingress.kubernetes.io/canary": "true", "nginx.ingress.kubernetes.io/canary-weight": "10", "alb.ingress.kubernetes.io/canary-by-header": "x"},
		"of MSE":     {"mse.ingress.kubernetes.io/service-subset": "base", "mse.ingress.kubernetes.io/canary-by-query": "q"},
		"of headers": {"nginx.ingress.kubernetes.io/canary-by-header": "x", "nginx.ingress.kubernetes.io/canary-by-header-value": "y", "nginx.ingress.kubernetes.io/canary-by-cookie": "c"},
	}
	var out []input
	for name, a := range annotations {
		for _, s := range steps() {
			obj := object{"weight": fmt.Sprint(s.weight), "canaryService": "svc-canary"}
			if a != nil {
				obj["annotations"] = a
			}
			if s.matches != nil {
				obj["matches"] = s.matches
			}
			if s.modifier != nil {
				obj["requestHeaderModifier"] = s.modifier
			}
			out = append(out, input{"annotations " + name + ", " + s.name, obj})
		}
	}
	return out
}

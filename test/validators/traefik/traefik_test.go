// Package traefik lets the router and the balancer of Traefik send requests by the scripts' output for an IngressRoute
// and a TraefikService. It is a separate module, because it needs the dependencies of Traefik.
package traefik

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/requestdecorator"
	muxer "github.com/traefik/traefik/v3/pkg/muxer/http"
	"github.com/traefik/traefik/v3/pkg/server/service/loadbalancer/wrr"
	"sigs.k8s.io/yaml"
)

type route struct {
	Match       string
	Syntax      string
	Priority    int
	Services    []service
	Middlewares []struct{ Name string }
}

type service struct {
	Name   string
	Kind   string
	Weight *int
	Sticky *dynamic.Sticky
}

type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Routes   []route
		Weighted struct {
			Services []service
			Sticky   *dynamic.Sticky
		}
		Mirroring *service
	}
}

// aCase is a case of a script. The object of a step may name the objects created at that step.
type aCase struct {
	Original object
	Expected []object
	Created  [][]object
}

// at returns the object of a step, and the additional objects.
func (c aCase) at(step int) (object, plane) {
	if step < len(c.Created) {
		return c.Expected[step], c.Created[step]
	}
	return c.Expected[step], nil
}

// plane has the objects that a gateway knows in addition to its routing object.
type plane []object

func (p plane) named(kind, name string) *object {
	for i := range p {
		if o := &p[i]; o.Kind == kind && o.Metadata.Name == name {
			return o
		}
	}
	return nil
}

const (
	kinds = "../../../lua_configuration/traefik.io/"
	cases = kinds + "IngressRoute/testdata/"
)

func read(t *testing.T, file string) aCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c aCase
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// balancer returns Traefik's own balancer, which answers a request with the name of the Service that gets it. Without
// Services, only middlewares answer.
func (p plane) balancer(t *testing.T, services []service) http.Handler {
	t.Helper()
	if len(services) == 0 {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	b := wrr.New(nil, false)
	for _, s := range services {
		b.Add(s.Name, p.service(t, s), s.Weight, false)
	}
	return b
}

// service answers with its name. If it copies requests, it answers like the Service to which it passes them.
func (p plane) service(t *testing.T, s service) http.Handler {
	t.Helper()
	if strings.HasPrefix(s.Name, "web-canary.") {
		made := p.named(s.Kind, s.Name)
		if made == nil || made.Spec.Mirroring == nil {
			t.Fatalf("%s is named, and not made", s.Name)
		}
		return p.service(t, *made.Spec.Mirroring)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.Name) })
}

// router returns Traefik's own router, with a balancer for each route.
func (p plane) router(t *testing.T, o object) http.Handler {
	t.Helper()
	parser, err := muxer.NewSyntaxParser()
	if err != nil {
		t.Fatal(err)
	}
	m := muxer.NewMuxer(parser, nil)
	for _, r := range o.Spec.Routes {
		for _, m := range r.Middlewares {
			if strings.HasPrefix(m.Name, "web-canary.") && p.named("Middleware", m.Name) == nil {
				t.Errorf("%s is named, and not made", m.Name)
			}
		}
		if r.Priority == 0 {
			r.Priority = muxer.GetRulePriority(r.Match)
		}
		if err := m.AddRoute(r.Match, r.Syntax, r.Priority, "kubernetescrd", p.balancer(t, r.Services)); err != nil {
			t.Errorf("rule %s: %v", r.Match, err)
		}
	}
	return m
}

func ask(t *testing.T, h http.Handler, url string, headers map[string]string) string {
	t.Helper()
	method, rest, told := strings.Cut(url, " ")
	if !told {
		method, rest = http.MethodGet, url
	}
	request := httptest.NewRequest(method, rest, nil)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	requestdecorator.New(nil).ServeHTTP(answer, request, h.ServeHTTP)
	return answer.Body.String()
}

// Traefik accepts each rule of a case, before a release and at each of its steps.
func TestTraefikTakesTheRulesThatTheScriptMakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(cases + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c := read(t, file)
			if len(c.Original.Spec.Routes) > 0 && c.Original.Spec.Routes[0].Syntax != "v2" {
				plane{}.router(t, c.Original)
			}
			for i := range c.Expected {
				o, p := c.at(i)
				p.router(t, o)
			}
		})
	}
}

// Requests go to the destination of a step.
func TestTraefikSendsWhatMatchesToTheCanary(t *testing.T) {
	t.Parallel()
	const shop = "http://shop.example.com"
	type request struct {
		url     string
		headers map[string]string
		want    string
	}
	with := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for file, steps := range map[string][][]request{
		"headers": {
			{{shop, with("User", "beta"), "web-canary"}, {shop, with("User", "beta2"), "web"}, {shop, nil, "web"}},
			{{shop, with("User", "bob"), "web-canary"}, {shop, with("User", "a bob"), "web"}},
			{{shop, with("User", "beta", "Region", "eu"), "web-canary"}, {shop, with("User", "beta"), "web"}},
			{{shop, with("User", "beta"), "web-canary"}, {shop, with("Region", "eu-1"), "web-canary"}, {shop, with("Region", "us"), "web"}},
		},
		"query_and_path": {
			{{shop + "?version=next", nil, "web-canary"}, {shop + "?version=old", nil, "web"}},
			{{shop + "?version=new", nil, "web-canary"}, {shop + "?version=anew", nil, "web"}},
			{{shop + "/cart", nil, "web-canary"}, {shop + "/cart/1", nil, "web"}},
			{{shop + "/cart", nil, "web-canary"}, {shop + "/cart/1", nil, "web-canary"}, {shop + "/cartoon", nil, "web"}},
			{{shop + "/cart/1", nil, "web-canary"}, {shop + "/cart/1/2", nil, "web"}},
			{{shop + "/cart?version=next", with("User", "beta"), "web-canary"}, {shop + "/cart?version=next", nil, "web"}},
		},
		"values_are_quoted": {
			{{shop, with("a", `say "hi"`, "b", "`\\\"", "c", ""), "web-canary"}, {shop, with("a", `say "hi"`, "b", "`", "c", ""), "web"}},
			{{shop + "/anything", nil, "web-canary"}},
		},
		"rules_of_the_routes_stay": {
			{
				{"POST http://any/b", with("User", "beta"), "web-canary"}, {"POST http://any/b", nil, "web"}, {"POST http://a/c", with("User", "beta"), "web-canary"},
				{"http://a/c", with("User", "beta"), "other"}, {"POST http://a/x", with("User", "beta"), "web"}, {"POST http://any/old", with("User", "beta"), ""},
			},
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			c := read(t, cases+file+".yaml")
			if len(c.Expected) != len(steps) {
				t.Fatalf("the case has %d steps, and %d are asked about", len(c.Expected), len(steps))
			}
			for i, requests := range steps {
				o, p := c.at(i)
				h := p.router(t, o)
				for _, r := range requests {
					if got := ask(t, h, r.url, r.headers); got != r.want {
						t.Errorf("step %d: %s with %v leads to %q, want %q", i+1, r.url, r.headers, got, r.want)
					}
				}
			}
		})
	}
}

// The canary gets its share of a thousand requests, and not one more or less.
func TestTraefikSharesAsTheStepsAsk(t *testing.T) {
	t.Parallel()
	for kind, handler := range map[string]func(object) http.Handler{
		"IngressRoute":   func(o object) http.Handler { return plane{}.router(t, o) },
		"TraefikService": func(o object) http.Handler { return plane{}.balancer(t, o.Spec.Weighted.Services) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := read(t, kinds+kind+"/testdata/weights.yaml")
			for i, percent := range []int{0, 1, 20, 33, 50, 99, 100} {
				h, got := handler(c.Expected[i]), map[string]int{}
				for range 1000 {
					got[ask(t, h, "http://shop.example.com", nil)]++
				}
				if got["web-canary"] != 10*percent || got["web"] != 10*(100-percent) {
					t.Errorf("%d%%: of a thousand requests %v", percent, got)
				}
			}
		})
	}
}

// If requests are copied, the same Service answers them as without copies.
func TestTraefikAnswersAsBeforeWhereItCopies(t *testing.T) {
	t.Parallel()
	for kind, steps := range map[string][]map[string]int{
		"IngressRoute":   {{"web": 1000}, {"web": 1000}, {"web": 800, "web-canary": 200}, {"web": 1000}},
		"TraefikService": {{"web": 750, "other": 250}, {"web": 750, "other": 250}, {"web": 600, "other": 250, "web-canary": 150}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := read(t, kinds+kind+"/testdata/mirror.yaml")
			for i, want := range steps {
				o, p := c.at(i)
				h := p.router(t, o)
				if kind == "TraefikService" {
					h = p.balancer(t, o.Spec.Weighted.Services)
				}
				answered := map[string]int{}
				for range 1000 {
					answered[ask(t, h, "http://www.example.com", nil)]++
				}
				if !maps.Equal(answered, want) {
					t.Errorf("step %d: of a thousand requests %v were answered, want %v", i+1, answered, want)
				}
			}
		})
	}
}

// browser has the cookies of a user, by name.
type browser map[string]string

func (b browser) visit(h http.Handler) (pod string) {
	request := httptest.NewRequest(http.MethodGet, "http://shop.example.com/", nil)
	for name, value := range b {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	for _, cookie := range answer.Result().Cookies() {
		b[cookie.Name] = cookie.Value
	}
	return answer.Body.String()
}

// sticky returns the balancer of a TraefikService as Traefik builds it, with three pods of each Service.
func sticky(o object) http.Handler {
	level := wrr.New(o.Spec.Weighted.Sticky, false)
	for _, s := range o.Spec.Weighted.Services {
		pods := wrr.New(s.Sticky, false)
		for i := range 3 {
			pod := fmt.Sprintf("%s-%d", s.Name, i)
			pods.AddServer(pod, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pod) }), dynamic.Server{URL: "http://" + pod})
		}
		level.Add(s.Name, pods, s.Weight, false)
	}
	return level
}

// A user who has a session before the release keeps his pod. A user who comes during the release keeps his first pod.
func TestACookieOfTraefikKeepsUsersWithTheirVersion(t *testing.T) {
	t.Parallel()
	c := read(t, kinds+"TraefikService/testdata/sticky_cookies_of_two_levels.yaml")
	before, during := sticky(c.Original), sticky(c.Expected[0])
	versions := map[string]int{}
	for user := range 20 {
		known := browser{}
		if user < 10 {
			known.visit(before)
		}
		pod := known.visit(during)
		for range 100 {
			if now := known.visit(during); now != pod {
				t.Fatalf("user %d was sent to %s, and then to %s", user, pod, now)
			}
		}
		version := strings.TrimRight(pod, "-012")
		if versions[version]++; user < 10 && version != "web" {
			t.Errorf("user %d had a session with the stable version, and was sent to %s", user, pod)
		}
	}
	if versions["web-canary"] == 0 {
		t.Errorf("nobody who came during the release was sent to the canary: %v", versions)
	}
}

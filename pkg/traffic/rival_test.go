package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/script"
)

// A kind that has room for one release at a time says so, and the second one waits until the first has left.
func TestASecondReleaseWaitsWhereAKindTakesOne(t *testing.T) {
	t.Parallel()
	source, err := script.NewLibrary(luaconfiguration.FS, "").Find("gateway.networking.k8s.io", "HTTPRoute", script.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	can := *source.Capabilities
	can.SeveralReleases = new(false)
	source.Capabilities = &can
	for _, order := range [][]string{{"web", "api"}, {"api", "web"}} { // in which they come; they are folded by name
		l := aLife(t, "gateway.networking.k8s.io/v1 HTTPRoute")
		l.run = Lua(t.Context(), source)
		of := map[string]Release{"web": l.web, "api": l.api}
		first, second := of[order[0]], of[order[1]]
		l.at(first, 20)
		route, _ := l.observe(second, weight(20))
		want := "it takes one release at a time, and the release of Rollout " + first.Name + " is on the object; wait until that has ended"
		if got := route.Steps[1].Refused; !strings.Contains(got, want) {
			t.Errorf("%s after %s: refused = %q, want ...%q", second.Name, first.Name, got, want)
		}
		l.at(first, 50)
		l.restore(first)
		l.at(second, 20)
		l.restore(second)
		if diff := cmp.Diff(l.original, ContentOf(l.live)); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
	}
}

// What is said of the sum of weights reaches the check of what a script makes.
func TestAScriptOfAKindWithASumIsHeldToIt(t *testing.T) {
	t.Parallel()
	program, err := script.Compile("Lane", `
		obj.data.spec.backends = {
			{ name = obj.stableService, weight = 4 }, { name = obj.canaryService, weight = 1 },
		}
		return obj.data`)
	if err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[float64]string{0: "", 5: "", 100: "add up to 5, and the kind takes those that add up to 100"} {
		l := aLife(t, "gateway.networking.k8s.io/v1 HTTPRoute")
		l.live.Object["spec"] = specOf(t, "  {backends: [{name: web, weight: 100}]}")
		l.run = Lua(t.Context(), script.Source{Program: program, Capabilities: &script.Capabilities{Weights: true, WeightSum: sum}})
		route, _ := l.observe(l.web, weight(20))
		if got := route.Steps[1].Refused; want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("sum %g: refused = %q, want %q", sum, got, want)
		}
	}
}

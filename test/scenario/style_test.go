package scenario

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

const bothRoute = `
gateways: [simple-gateway]
hosts: ['*']
http:
- match: [{headers: {version: {exact: canary}}}]
  route: [{destination: {host: service-demo-canary}}]
- route:
  - {destination: {host: service-demo}, weight: 50}
  - {destination: {host: service-demo-canary}, weight: 50}
`

// In every style, a step may route a share of the traffic, the matching requests, both or neither. A step with neither
// returns the traffic of the step before.
func TestAStepOfAnyStyleRoutesWhatItSays(t *testing.T) {
	t.Parallel()
	const matches = "matches: [{headers: [{type: Exact, name: version, value: canary}]}]"
	steps := []string{"{replicas: 1}", "{replicas: 1, traffic: 20%}", "{replicas: 1, " + matches + "}", "{replicas: 2, traffic: 50%, " + matches + "}", "{replicas: 2}"}
	routes := []string{"", weightRoute(20), headerRoute, bothRoute, ""}
	for style, manifest := range map[string]string{
		"canary": withSteps(t, steps...), "partition": inPlace(withSteps(t, steps...)), "blue-green": blueGreen(t, steps...),
	} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			d := aDemo(t, world.Shared(t), manifest)
			d.release(t, version("canary"))
			for n, route := range routes {
				d.await(t, world.PausedAt(int32(n+1)))
				if route != "" {
					wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", route)
				} else {
					wantSame(t, d.route, d.w.Get(t, d.ns, "virtualservice", "vs-demo"))
				}
				d.approveIn(t, style)
			}
			d.await(t, world.Healthy)
			d.awaitSets(t, map[string]int32{"canary": 3})
			d.wantRestored(t)
		})
	}
}

// approveIn approves a pause in a style, because blue-green has another field in the status.
func (d *demo) approveIn(t *testing.T, style string) {
	t.Helper()
	switch style {
	case "blue-green":
		green{d}.approve(t)
	case "v1alpha1": // canary style, by who knows no other version of the API
		d.w.Do(t, "-n", d.ns, "patch", "rollouts.v1alpha1.rollouts.kruise.io", "rollouts-demo", "--subresource=status", "--type=merge", "-p", approval)
	default:
		d.approve(t)
	}
}

// Between releases a Rollout may take another style. The status of the earlier style goes.
func TestARolloutChangesItsStyleBetweenReleases(t *testing.T) {
	t.Parallel()
	d := aDemo(t, world.Shared(t), withSteps(t, "{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 50%}"))
	for _, c := range []struct {
		style, change string
		sets          map[string]int32 // at the last step
	}{
		{"canary", "", map[string]int32{"base": 3, "v-canary": 2}},
		{"partition", `{"spec":{"strategy":{"canary":{"enableExtraWorkloadForCanary":null}}}}`, map[string]int32{"v-canary": 1, "v-partition": 2}},
		{"blue-green", `{"spec":{"strategy":{"canary":null,"blueGreen":{"steps":[{"replicas":1,"traffic":"20%"},{"replicas":2,"traffic":"50%"}],
			"trafficRoutings":[{"service":"service-demo","gracePeriodSeconds":1,
				"customNetworkRefs":[{"apiVersion":"networking.istio.io/v1beta1","kind":"VirtualService","name":"vs-demo"}]}]}}}}`,
			map[string]int32{"v-partition": 3, "v-blue-green": 2}},
		{"canary again", `{"spec":{"strategy":{"blueGreen":null,"canary":{"enableExtraWorkloadForCanary":true,
			"steps":[{"replicas":1,"traffic":"20%"},{"replicas":2,"traffic":"50%"}],
			"trafficRoutings":[{"service":"service-demo","gracePeriodSeconds":1,
				"customNetworkRefs":[{"apiVersion":"networking.istio.io/v1beta1","kind":"VirtualService","name":"vs-demo"}]}]}}}}`,
			map[string]int32{"v-blue-green": 3, "v-canary again": 2}},
	} {
		d.changeTo(t, c.change)
		d.release(t, version("v-"+c.style))
		for n, weight := range []int{20, 50} {
			r := d.await(t, world.PausedAt(int32(n+1)))
			wantSpec(t, d.w, d.ns, "virtualservice", "vs-demo", weightRoute(weight))
			if beside := c.style == "blue-green"; (r.Status.BlueGreenStatus != nil) != beside || (r.Status.CanaryStatus != nil) == beside {
				t.Errorf("in style %s it shows canaryStatus %v and blueGreenStatus %v", c.style, r.Status.CanaryStatus, r.Status.BlueGreenStatus)
			}
			if n == 1 {
				d.wantSets(t, c.sets)
			}
			d.approveIn(t, c.style)
		}
		d.await(t, world.Healthy)
		d.awaitSets(t, map[string]int32{"v-" + c.style: 3})
		d.w.Available(t, d.ns, "workload-demo")
		d.wantRestored(t)
	}
}

// changeTo changes the Rollout, and waits until the status shows that.
func (d *demo) changeTo(t *testing.T, patch string) {
	t.Helper()
	if patch == "" {
		return
	}
	if err := d.w.Patch(t, d.ns, "rollout", "rollouts-demo", patch); err != nil {
		t.Fatal(err)
	}
	d.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.ObservedGeneration == r.Generation })
}

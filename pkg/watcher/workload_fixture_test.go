package watcher

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// webWorkload returns a StatefulSet or a DaemonSet.
func webWorkload(kind string) string {
	return strings.NewReplacer("kind: Deployment", "kind: "+kind, "replicas: 1", "revisionHistoryLimit: 3").Replace(webDeployment)
}

// bareRollout releases a workload and routes no traffic.
func bareRollout(apiVersion, kind string) string {
	spec, _, _ := strings.Cut(rolloutOf(apiVersion, kind), "      trafficRoutings:")
	return strings.NewReplacer("name: web, namespace: shop, uid: u, generation: 2", "name: "+strings.ToLower(kind),
		", traffic: 20%", "", ", traffic: 50%", "").Replace(spec)
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestAStatefulSetWakesItsRelease(t *testing.T) { wakesItsRelease(t, "StatefulSet") }

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestADaemonSetWakesItsRelease(t *testing.T) { wakesItsRelease(t, "DaemonSet") }

func wakesItsRelease(t *testing.T, kind string) {
	name := strings.ToLower(kind)
	s := newScene(t, func(s *scene) { s.apply(bareRollout("apps/v1", kind)) })
	s.wakes(name, "the start of the watcher", func() {})
	s.wakes(name, "the workload", func() { s.apply(webWorkload(kind)) })
	s.wakes(name, "a new version", func() {
		s.patch(name+"/web", `{"spec":{"template":{"metadata":{"labels":{"v":"2"}}}}}`)
	})
	s.kubectl("", "rollout", "status", name+"/web", "--timeout=600s")
	s.quiet(name, "a label of the workload, or another one", func() {
		s.kubectl("", "label", name+"/web", "a=b")
		s.apply(strings.Replace(webWorkload(kind), "metadata: {name: web}", "metadata: {name: other}", 1))
	}, func() { s.patch(name+"/web", `{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"1"}}}`) })
	s.wakes("gone", "a mark of a Rollout that does not exist", func() {
		s.patch(name+"/other", `{"metadata":{"annotations":{"sluice.dev/rollout":"gone"}}}`)
	})
	s.wakes(name, "the end of the workload", func() { s.kubectl("", "delete", name+"/web") })
}

func TestAKindIsWatchedFromWhenARolloutNamesItAsItsWorkload(t *testing.T) {
	t.Parallel()
	const group = "workloads.example.com"
	s := newScene(t, func(s *scene) {
		s.apply(gadget(group), gatewayRole(group, s.namespace))
		s.kubectl("", "wait", "crd/gadgets."+group, "--for=condition=Established")
		s.apply(gadgetObject(group, "a"))
	})
	t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+group) })
	object := func(image string) string {
		return fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: web}\nspec: {template: {image: %s}}", group, image)
	}
	s.wakes("gadget", "a Rollout", func() { s.apply(bareRollout(group+"/v1", "Gadget")) })
	s.wakes("gadget", "a new version", func() { s.apply(object("v1")) })
	s.wakes("gadget", "another one", func() { s.apply(object("v2")) })
}

// A user who may write a Rollout can name a kind that the watcher may not read.
func TestAWorkloadThatMayNotBeReadLeavesTheWatcherReady(t *testing.T) {
	t.Parallel()
	const group = "forbidden.example.com"
	s := newScene(t, func(s *scene) {
		s.apply(gadget(group))
		s.kubectl("", "wait", "crd/gadgets."+group, "--for=condition=Established")
		s.apply(bareRollout(group+"/v1", "Gadget"), webDeployment, webRollout("web"))
	})
	t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+group) })
	s.wakes("gadget", "the start of the watcher", func() {})
	s.wakes("web", "a new version", func() { s.patch("deployment/web", `{"spec":{"template":{"metadata":{"labels":{"v":"2"}}}}}`) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); s.watcher.Ready() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal(s.watcher.Ready())
		}
	}
}

package watcher

import (
	"strings"
	"testing"
)

// The object may have been created after its release, and even its Rollout, had ended.
func TestAnObjectMadeForARolloutThatIsGoneWakesWhoTakesItAway(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(s *scene) {
		rollout := webRollout("web")
		before, _, _ := strings.Cut(rollout, "      trafficRoutings:")
		s.apply(before + "      trafficRoutings: [{service: web, ingress: {name: web, classType: nginx}}]\n")
	})
	s.wakes("web", "the start of the watcher", func() {})
	s.wakes("gone", "an Ingress made for its release", func() {
		s.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web-canary
  labels: {sluice.dev/rollout-uid: u}
  annotations: {sluice.dev/releases: '{"u":{"namespace":"` + s.namespace + `","name":"gone","service":"web","canaryService":"web-canary","epoch":1,"step":1}}'}
spec: {defaultBackend: {service: {name: web-canary, port: {number: 80}}}}`)
	})
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestWhatAScriptOfUsersMakesBesideAnObjectWakesItsRelease(t *testing.T) {
	const group, signs = "roads.example.com", "signs.example.com"
	s := newScene(t, func(s *scene) {
		for _, g := range []string{group, signs} {
			s.apply(gadget(g), gatewayRole(g, s.namespace+"-"+g))
			s.kubectl("", "wait", "crd/gadgets."+g, "--for=condition=Established")
			t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+g) })
		}
		s.apply(gadgetRollout(group), gadgetObject(group, "a"))
	})
	s.wakes("web", "the start of the watcher", func() {})
	s.wakes("web", "a script that says what it makes", func() {
		s.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration}
data:
  lua.traffic.routing.Gadget.roads.example.com: return obj.data
  capabilities.traffic.routing.Gadget.roads.example.com: "creates: [{apiVersion: signs.example.com/v1, kind: Gadget}]"`)
	})
	uid := s.kubectl("", "get", "gadgets."+group, "web", "-o", "jsonpath={.metadata.uid}")
	s.wakes("web", "what it makes", func() {
		s.apply(`
apiVersion: ` + signs + `/v1
kind: Gadget
metadata:
  name: sign
  labels: {sluice.dev/rollout-uid: u}
  ownerReferences: [{apiVersion: ` + group + `/v1, kind: Gadget, name: web, uid: ` + uid + `}]`)
	})
	s.wakes("web", "the end of it", func() { s.kubectl("", "delete", "gadgets."+signs, "sign") })
}

// It does not run in parallel with the tests that install kinds and policies, which wake every Rollout.
func TestWhatAScriptReadsWakesWhoseObjectsNameIt(t *testing.T) {
	const group, signs = "lanes.example.com", "boards.example.com"
	object := func(group, name, spec string) string {
		return "apiVersion: " + group + "/v1\nkind: Gadget\nmetadata: {name: " + name + "}\nspec: " + spec
	}
	s := newScene(t, func(s *scene) {
		for _, g := range []string{group, signs} {
			s.apply(gadget(g), gatewayRole(g, s.namespace+"-"+g))
			s.kubectl("", "wait", "crd/gadgets."+g, "--for=condition=Established")
			t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+g) })
		}
		s.apply(gadgetRollout(group), object(group, "web", "{next: far}"))
	})
	s.wakes("web", "the start of the watcher", func() {})
	s.calm()
	s.wakes("web", "a script that says what it reads", func() {
		s.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: kruise-rollout-configuration}
data:
  lua.traffic.routing.Gadget.lanes.example.com: return obj.data
  capabilities.traffic.routing.Gadget.lanes.example.com: |
    reads: [{kind: Gadget, field: next}, {apiVersion: boards.example.com/v1, kind: Gadget, field: sign}]`)
	})
	s.calm()
	s.wakes("web", "what its object names", func() { s.apply(object(group, "far", "{sign: post}")) })
	s.wakes("web", "what that names", func() { s.apply(object(signs, "post", "{text: a}")) })
	s.wakes("web", "an edit of it", func() { s.apply(object(signs, "post", "{text: b}")) })
	s.quiet("web", "objects of both kinds that nobody names",
		func() {
			s.apply(object(signs, "other", "{text: a}"), object(group, "other", "{next: web, sign: other}"))
		},
		func() { s.apply(object(group, "far", "{sign: post, next: none}")) })
	s.wakes("web", "its object, which names another one", func() { s.apply(object(group, "web", "{next: other}")) })
	s.quiet("web", "what its object names no more",
		func() { s.apply(object(signs, "post", "{text: c}")) },
		func() { s.apply(object(signs, "other", "{text: b}")) })
	s.wakes("web", "the end of what is named", func() { s.kubectl("", "delete", "gadgets."+signs, "other") })
}

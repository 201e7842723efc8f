package watcher

import (
	"strings"
	"testing"
)

// It may have come to be after its release, and even its Rollout, had ended.
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

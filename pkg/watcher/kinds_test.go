package watcher

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A release that the start of a watch wakes may create an object, and a user may delete it before the watch has read
// its first list. No event reports that. The test does not run in parallel with the tests that install kinds and
// policies, which wake every Rollout.
func TestTheFirstListOfAKindWakesWhoNamesIt(t *testing.T) {
	const group = "late.example.com"
	asked, answer := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	s := newScene(t, func(s *scene) {
		s.apply(gadget(group), gatewayRole(group, s.namespace+"-"+group))
		s.kubectl("", "wait", "crd/gadgets."+group, "--for=condition=Established")
		t.Cleanup(func() { s.kubectl("", "delete", "crd", "gadgets."+group) })
		s.apply(gadgetRollout(group))
		s.wrap = func(next http.RoundTripper) http.RoundTripper {
			return wire(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/apis/"+group+"/v1/gadgets") {
					once()
					select {
					case <-answer:
					case <-r.Context().Done():
					}
				}
				return next.RoundTrip(r)
			})
		}
	})
	s.wakes("web", "the start of the watcher", func() { <-asked })
	s.wakes("web", "the first list", func() { close(answer) })
}

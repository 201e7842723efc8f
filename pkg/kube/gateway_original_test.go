package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/rollout"
)

// largeVirtualService has so many hosts that its original does not fit into an annotation.
func largeVirtualService() string {
	var hosts []string
	for n := range 1500 {
		hosts = append(hosts, fmt.Sprintf("%s.%s.x%d.example.com", strings.Repeat("y", 60), strings.Repeat("z", 60), n))
	}
	return strings.Replace(virtualService, "hosts: [web.example.com]", "hosts: ["+strings.Join(hosts, ", ")+"]", 1)
}

// clientThatDies returns the client of a process that is killed after that many writes.
func clientThatDies(t *testing.T, writes int) *kube.Client {
	t.Helper()
	var sent atomic.Int64
	return clientThrough(t, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodGet && sent.Add(1) > int64(writes) {
			return nil, errors.New("the process is dead")
		}
		return next.RoundTrip(r)
	})
}

// The executor deletes a stored original only after it has restored the object, because it is the only copy.
func TestAStoredOriginalOutlivesARestoreThatIsCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(deployment, service, canaryRollout)
	w.kubectl(largeVirtualService(), "create", "-f", "-")
	stored := func() string {
		return w.kubectl("", "get", "controllerrevisions", "-l", api.LabelOriginalOf, "-o", "name")
	}
	original := w.get("virtualservice/web", "{.spec}")
	for writes := range 3 {
		route := w.observe("web").Seen.Routes[0]
		w.act(rollout.ApplyRoute{Object: route.Object, Step: 1, Digest: route.Steps[1].Digest})
		if stored() == "" {
			t.Fatal("the original is not stored apart")
		}
		dies := clientThatDies(t, writes)
		s, err := dies.Observe(t.Context(), w.key("web"))
		if err != nil {
			t.Fatal(err)
		}
		restore := rollout.RestoreRoute{Object: route.Object}
		if err := dies.ApplyAction(t.Context(), s, restore); err == nil {
			t.Errorf("a restore is done in %d writes", writes)
		}
		w.act(restore) // as the next process does
		if w.get("virtualservice/web", "{.spec}") != original {
			t.Errorf("after a restore that was cut short after %d writes, the next one does not give the original back", writes)
		}
		if left := stored(); left != "" {
			t.Errorf("after a restore that was cut short after %d writes, %s is left", writes, left)
		}
	}
}

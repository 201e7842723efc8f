package kube_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/rollout"
)

// podLists counts lists of pods, and changes those from the cache of the API server.
type podLists struct {
	cached, live int
	// age changes a list from the cache; nil leaves it as it is.
	age func(list map[string]any)
}

func (p *podLists) client(t *testing.T) *kube.Client {
	t.Helper()
	return clientThrough(t, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/pods") {
			return next.RoundTrip(r)
		}
		if r.URL.Query().Get("resourceVersion") != "0" {
			p.live++
			return next.RoundTrip(r)
		}
		p.cached++
		if p.age == nil {
			return next.RoundTrip(r)
		}
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		response, err := next.RoundTrip(r)
		if err == nil {
			p.alter(t, response)
		}
		return response, err
	})
}

func (p *podLists) alter(t *testing.T, response *http.Response) {
	var list map[string]any
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Error(err)
	}
	_ = response.Body.Close()
	p.age(list)
	body, err := json.Marshal(list)
	if err != nil {
		t.Error(err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
}

// old gives a list an old resourceVersion.
func old(list map[string]any) {
	if metadata, ok := list["metadata"].(map[string]any); ok {
		metadata["resourceVersion"] = "1"
	}
}

// without removes a pod from a list.
func without(list map[string]any) {
	if items, ok := list["items"].([]any); ok && len(items) > 0 {
		list["items"] = items[1:]
	}
}

func TestPodsAreFoundInTheCacheOfTheAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(strings.Replace(deployment, "replicas: 2", "replicas: 4", 1), strings.Replace(partitionRollout, "[{replicas: 1}, {replicas: 2}", "[{replicas: 1}, {replicas: 2}, {replicas: 3}", 1))
	w.kubectl("", "wait", "deployment/web", "--for=condition=Available", "--timeout=600s")
	w.drive("web", rollout.StateIdle)
	w.adopted()
	w.kubectl("", "patch", "deployment", "web", "--type=merge", "-p", heldImage("2"))
	lists := &podLists{age: old}
	w.client = lists.client(t)
	for step, c := range []struct {
		name string
		age  func(map[string]any)
		live bool
	}{
		{"an old list", old, true}, // it lacks the labels that this client wrote
		{"a list that is up to date", nil, false},
		{"a list that lacks a pod", without, true},
	} {
		*lists = podLists{age: c.age}
		w.drive("web", rollout.StatePaused)
		batches := w.kubectl("", "get", "pods", "-l", "rollouts.kruise.io/rollout-id", "-o", `jsonpath={range .items[*]}{.metadata.labels.rollouts\.kruise\.io/rollout-batch-id}{end}`)
		if len(batches) != step+1 || strings.Count(batches, string(rune('1'+step))) != 1 {
			t.Errorf("%s: the pods are labelled %s", c.name, batches)
		}
		w.eventually("the labels are looked at no more", func() bool {
			before := *lists
			s := w.observe("web")
			if labels := podLabelling(s); labels {
				t.Errorf("%s: pods are labelled once more", c.name)
			}
			return before.cached == lists.cached
		})
		if c.live && lists.live == 0 || lists.cached == 0 {
			t.Errorf("%s: it took %d more from the cache, and %d others", c.name, lists.cached, lists.live)
		}
		w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	}
}

func podLabelling(s *kube.Snapshot) bool {
	for _, a := range planner.Plan(s.Seen, time.Now()).Actions {
		if _, is := a.(rollout.LabelPods); is {
			return true
		}
	}
	return false
}

// If a list is too old to show that all pods are labelled, the executor only lists the pods again.
func TestAnOldListOfPodsIsNotRemembered(t *testing.T) {
	t.Parallel()
	w, _ := betweenSteps(t)
	lists := &podLists{age: old}
	w.client = lists.client(t)
	for range 2 {
		if podLabelling(w.observe("web")) {
			t.Error("pods are labelled that are labelled")
		}
	}
	if diff := cmp.Diff([]int{2, 0}, []int{lists.cached, lists.live}); diff != "" {
		t.Errorf("lists from the cache and others (-want +got):\n%s", diff)
	}
	lists.age = nil
	w.eventually("a list that is not old is remembered", func() bool {
		before := lists.cached
		w.observe("web")
		return lists.cached == before
	})
}

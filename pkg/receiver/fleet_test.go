package receiver_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// fleetRelease returns an event about a FleetRollout as JSON.
func fleetRelease(data map[string]any) string {
	return approval(map[string]any{"type": event.TypeFleetRelease, "subject": "namespaces/shop/fleetrollouts/web", "data": data})
}

// Before the receiver takes an event about a FleetRollout, it checks a permission on FleetRollouts. A caller who may only approve cannot release.
func TestWhatAnEventAboutAFleetNeeds(t *testing.T) {
	w := aWorld(t, gate{})
	decision := approval(map[string]any{"subject": "namespaces/shop/fleetrollouts/web", "data": map[string]any{"decision": "approve", "uid": "u", "epoch": 7, "wave": "canary"}})
	for name, tt := range map[string]struct {
		user, body string
		status     int
		told       string
	}{
		"a release":                    {"only-release", fleetRelease(map[string]any{"version": "v2"}), http.StatusAccepted, ""},
		"a release by an approver":     {"only-approve", fleetRelease(map[string]any{"version": "v2"}), http.StatusForbidden, "may not release FleetRollout shop/web"},
		"an approval":                  {"only-approve", decision, http.StatusAccepted, ""},
		"an approval by a releaser":    {"only-release", decision, http.StatusForbidden, "may not approve FleetRollout shop/web"},
		"a plan":                       {"only-release-use", fleetRelease(map[string]any{"version": "v2", "plan": "hotfix"}), http.StatusAccepted, ""},
		"a plan by a releaser":         {"only-release", fleetRelease(map[string]any{"version": "v2", "plan": "hotfix"}), http.StatusForbidden, "may not use FleetPlan hotfix"},
		"a plan without a release":     {"only-use", fleetRelease(map[string]any{"version": "v2", "plan": "hotfix"}), http.StatusForbidden, "may not release"},
		"no version":                   {"only-release", fleetRelease(map[string]any{"comment": "x"}), http.StatusBadRequest, "data names no version"},
		"images that are a list":       {"only-release", fleetRelease(map[string]any{"images": []string{"a"}}), http.StatusBadRequest, "data.images"},
		"an image without a name":      {"only-release", fleetRelease(map[string]any{"images": map[string]any{"app": ""}}), http.StatusBadRequest, "data.images.app is empty"},
		"an approval without an epoch": {"only-approve", strings.Replace(decision, `"epoch":7,`, "", 1), http.StatusBadRequest, "give uid, epoch and wave"},
		"half an epoch":                {"only-approve", strings.Replace(decision, `"epoch":7`, `"epoch":7.5`, 1), http.StatusBadRequest, "data.epoch is 7.5"},
		"a release of a Rollout": {"only-release", approval(map[string]any{"type": event.TypeFleetRelease, "data": map[string]any{"version": "v2"}}), http.StatusBadRequest,
			"want namespaces/<namespace>/fleetrollouts/<name>"},
	} {
		status, _, body := w.send(request{token: "Bearer token-of-" + tt.user, contentType: structured, body: tt.body})
		if status != tt.status || !strings.Contains(body, tt.told) {
			t.Errorf("%s: the answer is %d %s, want %d with %q", name, status, body, tt.status, tt.told)
		}
	}
}

// What the receiver takes comes to the consumers of requests about fleets, under the verb that the receiver has checked.
func TestAnEventAboutAFleetComesWithItsVerb(t *testing.T) {
	w := aWorld(t, gate{})
	status, _, body := w.send(request{contentType: structured, body: fleetRelease(map[string]any{"version": "v2", "plan": "hotfix"})})
	if status != http.StatusAccepted {
		t.Fatalf("the answer is %d %s", status, body)
	}
	got := make(chan queue.Approval, 1)
	w.consume(queue.TaskFleet, func(a queue.Approval) { got <- a })
	a := <-got
	if a.Verb != event.VerbUse || a.Key.Task != queue.TaskFleet || a.Key.Name != "web" || a.Principal != "kubernetes:ci" {
		t.Errorf("it comes as %+v", a)
	}
}

func TestWhichReleaseACallerAsksAbout(t *testing.T) {
	w := aWorld(t, gate{})
	for path, want := range map[string]struct {
		status int
		told   string
	}{
		"/v1/namespaces/shop/fleetrollouts/web/release?epoch=x": {http.StatusBadRequest, "is not the number of a release"},
		"/v1/namespaces/shop/fleetrollouts/web/release?image=x": {http.StatusBadRequest, "write CONTAINER=IMAGE"},
		"/v1/namespaces/shop/fleetrollouts/web/release?wait=1h": {http.StatusBadRequest, "up to 10m0s"},
		"/v1/namespaces/shop/fleetrollouts/Web!/release":        {http.StatusBadRequest, "must consist of"},
		"/v1/namespaces/bank/fleetrollouts/web/release":         {http.StatusForbidden, "may not get FleetRollout bank/web"},
		"/v1/namespaces/dark/fleetrollouts/web/release":         {http.StatusServiceUnavailable, "does not say what you may do"},
		"/v1/namespaces/shop/fleetrollouts/web/status":          {http.StatusNotFound, ""},
	} {
		if status, _, body := w.send(request{method: http.MethodGet, path: path}); status != want.status || !strings.Contains(body, want.told) {
			t.Errorf("%s: the answer is %d %s, want %d with %q", path, status, body, want.status, want.told)
		}
	}
	if status, _, _ := w.send(request{method: http.MethodGet, path: "/v1/namespaces/shop/fleetrollouts/web/release", token: "-"}); status != http.StatusUnauthorized {
		t.Errorf("without a token, the answer is %d", status)
	}
}

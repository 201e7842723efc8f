package kube_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
)

// governedRollout is the usual Rollout in a fleet.
func governedRollout() string {
	return strings.Replace(canaryRollout, "spec:\n", "spec:\n  fleet: {namespace: releases, name: checkout}\n", 1)
}

// permitRecord returns the resourceVersion of the Rollout web and the record of the used permit.
func (w *world) permitRecord() (version, used string) {
	w.t.Helper()
	version, used, _ = strings.Cut(w.get("rollout/web", `{.metadata.resourceVersion} {.metadata.annotations.sluice\.dev/permit-used}`), " ")
	return version, used
}

func TestAUsedPermitIsRecordedOnTheRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(governedRollout())
	w.kubectl("", "annotate", "rollout", "web", "mine=x")
	s := w.observe("web")
	for _, used := range []api.PermitNumber{{Epoch: 3, Seq: 2}, {Epoch: 12, Seq: 0}} {
		if err := w.client.ApplyAction(t.Context(), s, rollout.RecordPermit{Permit: used}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(used, s.Seen.PermitUsed); diff != "" {
			t.Errorf("the snapshot after the write differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(used, w.observe("web").Seen.PermitUsed); diff != "" {
			t.Errorf("the next observation differs (-want +got):\n%s", diff)
		}
		if _, got := w.permitRecord(); got != fmt.Sprintf("%d.%d", used.Epoch, used.Seq) {
			t.Errorf("the record of %+v is %q", used, got)
		}
	}
	status := *s.Seen.Status.DeepCopy()
	status.Message = "another"
	if err := w.client.CommitStatus(t.Context(), s, status); err != nil {
		t.Errorf("a commit after the record: %v", err)
	}
	if got := w.get("rollout/web", `{.metadata.annotations.mine} {.metadata.annotations.sluice\.dev/permit-used} {.spec.fleet.name}`); got != "x 12.0 checkout" {
		t.Errorf("the Rollout is left with %q", got)
	}
}

func TestAUsedPermitIsNotRecordedOnARolloutThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"a user has changed it": func(w *world) { w.kubectl("", "annotate", "rollout", "web", "touched=yes") },
		"another executor has written its status": func(w *world) {
			w.kubectl("", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Healthy"}}`)
		},
		"another executor has recorded the permit": func(w *world) { w.act(rollout.RecordPermit{Permit: api.PermitNumber{Epoch: 3, Seq: 3}}) },
		"a user has deleted and created it": func(w *world) {
			w.kubectl("", "delete", "rollout", "web")
			w.apply(governedRollout())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(governedRollout())
			w.act(rollout.RecordPermit{Permit: api.PermitNumber{Epoch: 3, Seq: 1}})
			s := w.observe("web")
			change(w)
			version, used := w.permitRecord()
			err := w.client.ApplyAction(t.Context(), s, rollout.RecordPermit{Permit: api.PermitNumber{Epoch: 3, Seq: 2}})
			if !apiclient.IsConflict(err) {
				t.Errorf("the error is %v", err)
			}
			if afterwards, got := w.permitRecord(); afterwards != version || got != used {
				t.Errorf("the record was %q and is %q; the resourceVersion was %s and is %s", used, got, version, afterwards)
			}
			if diff := cmp.Diff(api.PermitNumber{Epoch: 3, Seq: 1}, s.Seen.PermitUsed); diff != "" {
				t.Errorf("the snapshot after the conflict differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAUsedPermitOfADeletedRolloutIsNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(governedRollout())
	s := w.observe("web")
	w.kubectl("", "delete", "rollout", "web")
	if err := w.client.ApplyAction(t.Context(), s, rollout.RecordPermit{Permit: api.PermitNumber{Epoch: 3, Seq: 2}}); !apiclient.IsGone(err) {
		t.Errorf("the error is %v", err)
	}
}

// An unreadable record must not look like a Rollout that has used no permit.
func TestTheRecordOfAUsedPermitIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unreadable := api.PermitNumber{Seq: 1}
	cases := map[string]struct {
		record string
		want   api.PermitNumber
	}{
		"a permit":                        {"3.12", api.PermitNumber{Epoch: 3, Seq: 12}},
		"a permit with the number 0":      {"3.0", api.PermitNumber{Epoch: 3}},
		"an empty record":                 {"", unreadable},
		"a word":                          {"x", unreadable},
		"an epoch only":                   {"1", unreadable},
		"a number that is a word":         {"1.x", unreadable},
		"an epoch that is a word":         {"x.1", unreadable},
		"the epoch 0":                     {"0.5", unreadable},
		"an epoch below 0":                {"-3.1", unreadable},
		"a number below 0":                {"3.-1", unreadable},
		"three numbers":                   {"1.2.3", unreadable},
		"an epoch beyond 64 bits":         {"9223372036854775808.1", unreadable},
		"a number without an epoch":       {".1", unreadable},
		"an epoch with a separator alone": {"1.", unreadable},
	}
	names := slices.Sorted(maps.Keys(cases))
	manifests := []string{strings.Replace(governedRollout(), "name: web", "name: none", 1)}
	for i, name := range names {
		metadata := fmt.Sprintf("metadata: {name: web-%d, annotations: {%s: %q}}", i, api.AnnotationPermitUsed, cases[name].record)
		manifests = append(manifests, strings.Replace(governedRollout(), "metadata: {name: web}", metadata, 1))
	}
	w.apply(manifests...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(cases[name].want, w.observe(fmt.Sprintf("web-%d", i)).Seen.PermitUsed); diff != "" {
				t.Errorf("the permit differs (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(api.PermitNumber{}, w.observe("none").Seen.PermitUsed); diff != "" {
		t.Errorf("without a record the permit differs (-want +got):\n%s", diff)
	}
}

// hub has the orders for one cluster, and the questions that its executor has asked.
type hub struct {
	says  kube.FleetOrder
	asked []types.NamespacedName
}

func (h *hub) order(r *api.Rollout) kube.FleetOrder {
	h.asked = append(h.asked, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	return h.says
}

// clientOf returns a client with the executor's rights that asks a hub.
func (w *world) clientOf(h *hub) *kube.Client {
	w.t.Helper()
	cfg := rest.CopyConfig(plane.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: api.DefaultInstallation().ExecutorUser()}
	client, err := kube.New(cfg, kube.Options{
		Scripts: script.NewLibrary(luaconfiguration.FS, ""), Order: h.order, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// The planner must see one permit, from the observation to the commit.
func TestTheHubIsAskedOnceForEachObservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(governedRollout())
	first := kube.FleetOrder{
		Permit:  &api.FleetPermit{Epoch: 3, Seq: 2, Verb: api.FleetVerbRelease, Version: "version/v2", Revision: "r2", HoldAt: 1},
		Blocked: []api.FleetBlock{{Version: "version/v1", Epoch: 2}},
	}
	h := &hub{says: first}
	client := w.clientOf(h)
	type seen struct {
		Message kube.FleetOrder
		Asked   []types.NamespacedName
	}
	check := func(when string, s *kube.Snapshot, want kube.FleetOrder, questions int) {
		t.Helper()
		got := seen{kube.FleetOrder{Permit: s.Seen.Permit, Blocked: s.Seen.Blocked}, h.asked}
		if diff := cmp.Diff(seen{want, slices.Repeat([]types.NamespacedName{w.key("web")}, questions)}, got); diff != "" {
			t.Errorf("the snapshot %s differs (-want +got):\n%s", when, diff)
		}
	}
	s, err := client.Observe(t.Context(), w.key("web"))
	if err != nil {
		t.Fatal(err)
	}
	check("after the observation", s, first, 1)

	h.says = kube.FleetOrder{Permit: &api.FleetPermit{Epoch: 4, Seq: 1, Verb: api.FleetVerbAbort}}
	if err := client.ApplyAction(t.Context(), s, rollout.RecordPermit{Permit: api.PermitNumber{Epoch: 3, Seq: 2}}); err != nil {
		t.Fatal(err)
	}
	check("after an action", s, first, 1)
	status := *s.Seen.Status.DeepCopy()
	status.Message = "another"
	if err := client.CommitStatus(t.Context(), s, status); err != nil {
		t.Fatal(err)
	}
	check("after a commit", s, first, 1)

	if err := client.ObserveLiveInto(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	check("after another observation", s, h.says, 2)
}

func TestTheFleetOfARolloutIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(governedRollout(), strings.Replace(canaryRollout, "name: web", "name: free", 1))
	type fleet struct {
		Reference *api.FleetReference
		Permit    *api.FleetPermit
		Blocked   []api.FleetBlock
	}
	asking := w.clientOf(&hub{})
	for name, want := range map[string]fleet{
		"web":  {Reference: &api.FleetReference{Namespace: "releases", Name: "checkout"}},
		"free": {},
	} {
		for kind, client := range map[string]*kube.Client{"of a cluster without a hub": w.client, "whose hub says nothing": asking} {
			s, err := client.Observe(t.Context(), w.key(name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, fleet{s.Seen.Spec.Fleet, s.Seen.Permit, s.Seen.Blocked}); diff != "" {
				t.Errorf("the Rollout %s %s differs (-want +got):\n%s", name, kind, diff)
			}
		}
	}
}

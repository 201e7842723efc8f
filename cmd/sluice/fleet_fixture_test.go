package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// fleetApp is a workload with its Rollout, which a fleet governs.
const fleetApp = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout, namespace: shop, annotations: {sluice.dev/version: VERSION}}
spec:
  replicas: 2
  selector: {matchLabels: {app: checkout}}
  template:
    metadata: {labels: {app: checkout}}
    spec: {containers: [{name: app, image: "example.com/checkout:VERSION"}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: checkout, namespace: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  fleet: {namespace: shop, name: checkout}
  strategy: {canary: {steps: [{replicas: 1, pause: {duration: 0}}, {replicas: "100%"}]}}
`

// fleetOfOne is a hub whose own cluster eu1 is its only member. The fleet runs version v1.
type fleetOfOne struct {
	*testing.T
	*world.World
}

func aFleetOfOne(t *testing.T) fleetOfOne {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	hubKey, memberKey := nkeyPair(t), nkeyPair(t)
	const password = "password-of-eu1"
	nats, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t), Members: map[string]string{"eu1": password}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	w := world.Bare(t, world.Options{Name: "eu1", NATS: nats})
	w.Member = &fleetlink.Options{
		NATS:   queue.Options{URL: nats.URL(), User: "eu1", Password: password, Name: "member eu1", Logger: w.Log},
		Member: fleetmessage.Member{Name: "eu1"},
		Keys:   func() (nkeys.KeyPair, []string, error) { return memberKey, []string{publicOf(t, hubKey)}, nil },
	}
	w.Begin(t, func(ctx context.Context) (func(), error) {
		return w.RunHub(ctx, func() ([]nkeys.KeyPair, error) { return []nkeys.KeyPair{hubKey}, nil })
	})
	w.Begin(t, w.RunWatcher)
	w.Begin(t, w.Executor)
	w.Do(t, "create", "namespace", "shop")
	w.Apply(t, "default", `
apiVersion: sluice.dev/v1alpha1
kind: FleetMember
metadata: {name: eu1, labels: {tier: canary}}
spec: {key: `+publicOf(t, memberKey)+`}
`)
	f := fleetOfOne{t, w}
	f.deliver("v1")
	w.Await(t, "shop", "checkout", func(r *api.Rollout) bool {
		return world.Healthy(r) && r.Status.Fleet != nil && len(r.Status.Fleet.Served) > 0
	})
	w.Available(t, "shop", "checkout")
	w.Do(t, "wait", "fleetmember/eu1", "--for=jsonpath={.status.phase}=Ready", fleetLimit)
	return f
}

// deliver applies a version as a GitOps tool does.
func (f fleetOfOne) deliver(version string) {
	f.Helper()
	f.Apply(f.T, "shop", strings.ReplaceAll(fleetApp, "VERSION", version))
}

func nkeyPair(t *testing.T) nkeys.KeyPair {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func publicOf(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// as returns a kubeconfig with the rights of another user.
func (f fleetOfOne) as(user string) string {
	f.Helper()
	return impersonating(f.T, f.Kubeconfig, user)
}

// turn is one command line about the FleetRollout checkout, and its result.
type turn struct {
	does string
	args []string
	code int
	out  string // part of the standard output
	told string // part of the text on standard error
}

// play runs command lines one after the other.
func (f fleetOfOne) play(turns ...turn) {
	f.Helper()
	for _, step := range turns {
		args := append([]string{"fleet", step.args[0], "checkout"}, step.args[1:]...)
		if step.args[0] == "attention" {
			args = slices.Delete(args, 2, 3)
		}
		code, out, errors := sluice(f.Context(), append(args, "-n", "shop", "--kubeconfig", f.Kubeconfig)...)
		if code != step.code || !strings.Contains(out, step.out) || !strings.Contains(errors, step.told) || step.out == "" && out != "" {
			f.Fatalf("%s: %v ended with %d, want %d\nout: %s\nerrors: %s", step.does, args, code, step.code, out, errors)
		}
	}
}

const fleetLimit = "--timeout=600s"

// TestAFleetIsTurnedByCommands turns releases by commands alone, with a hub and a cluster that carry them out.
func TestAFleetIsTurnedByCommands(t *testing.T) {
	t.Parallel()
	f := aFleetOfOne(t)
	f.play(turn{"there is nothing yet", []string{"release", "--version", "v2"}, 1, "", `"metadata": {"name": "checkout", "namespace": "shop"}`})
	f.Apply(t, "shop", `
apiVersion: sluice.dev/v1alpha1
kind: FleetRollout
metadata: {name: checkout}
spec:
  waves:
  - {name: canary, clusters: {matchLabels: {tier: canary}}, pause: {}}
  - {name: rest}
`)
	f.await("Idle", "NoRelease")
	f.play(
		turn{"no release takes no command", []string{"pause"}, 1, "", "FleetRollout shop/checkout has no release; begin one with: sluice fleet release checkout --version VERSION -n shop"},
		turn{"a version is released", []string{"release", "--version", "v2"}, 0, "fleetrollout.sluice.dev/checkout releases v2\n", "Follow it with: sluice fleet status checkout -n shop"},
		turn{"it is named already", []string{"release", "--version", "v2"}, 0, "fleetrollout.sluice.dev/checkout names v2 already\n", ""},
		turn{"it is waited for", []string{"status", "--version", "v2", "--timeout", "300ms"}, codeUndecided, "", "error: the release of v2 in FleetRollout shop/checkout has not ended after 300ms"},
		turn{"an approval comes too early", []string{"approve"}, 1, "", "no wave of FleetRollout shop/checkout waits for an approval: "},
	)
	f.await("Waiting", "Delivery")
	f.play(turn{"the tree shows the wait", []string{"get"}, 0, "`- eu1  AwaitingDelivery", ""})
	f.deliver("v2")
	f.play(
		turn{"the wave is reached", []string{"status", "--until-wave", "canary", fleetLimit}, 0, "wave canary has completed in the release of v2 in FleetRollout shop/checkout: wave canary waits for approval", ""},
		turn{"a person must act", []string{"status", fleetLimit}, codeRefused, "the release of v2 in FleetRollout shop/checkout waits for a person: wave canary waits for approval", "to approve, type: sluice fleet approve checkout -n shop\n"},
		turn{"the tree shows where it is", []string{"get"}, 0, ">  1  canary  tier=canary, 1 at once, until approved  <- you are here\n       pauses at its end for ", ""},
		turn{"and the command", []string{"get"}, 0, "       to approve, type:\n         sluice fleet approve checkout -n shop\n", ""},
		turn{"so do the clusters", []string{"targets"}, 0, "eu1       1 canary   Completed", ""},
		turn{"so does the list", []string{"attention"}, 0, "shop/checkout  Approval for ", ""},
	)
	f.whoMayApprove()
	f.play(
		turn{"another wave does not wait", []string{"approve", "--wave", "rest"}, 1, "", "wave rest of FleetRollout shop/checkout has not begun"},
		turn{"a rejection holds", []string{"reject", "--comment", "orders fail"}, 0, "FleetRollout shop/checkout has followed Reject by ", "the release goes no further (Reject by "},
		turn{"it is rejected already", []string{"reject"}, 0, "is rejected already by ", ""},
		turn{"an approval takes it back", []string{"approve", "--wave", "canary", "--reason", "e2e green"}, 0, ": e2e green; it is ", "the release is approved (Approve by "},
		turn{"twice is once", []string{"approve", "--wave", "canary"}, 0, "wave canary of FleetRollout shop/checkout has passed already\n", ""},
		turn{"a wave without clusters proves nothing", []string{"status", fleetLimit}, codeRefused, "0 clusters of wave rest have completed, and 1 is needed", "to pass over the wave, type: sluice fleet skip checkout -n shop"},
		turn{"a cluster that is not there", []string{"skip", "eu9"}, 1, "", `"eu9" is no cluster of the release of FleetRollout shop/checkout; list them with: sluice fleet targets checkout -n shop`},
		turn{"a cluster that has not failed", []string{"retry", "eu1"}, 1, "", "cluster eu1 is Completed: there is nothing to retry"},
		turn{"it is paused", []string{"pause", "--reason", "lunch"}, 0, "has followed Pause by ", ""},
		turn{"twice", []string{"pause"}, 0, "FleetRollout shop/checkout is paused already\n", ""},
		turn{"it goes on", []string{"resume"}, 0, "has followed Resume by ", ""},
		turn{"why is asked for", []string{"promote"}, 1, "", "say why with --reason"},
		turn{"a wave that has passed", []string{"promote", "--through", "canary", "--reason", "hotfix"}, 1, "", "wave canary of FleetRollout shop/checkout has passed; the release is in wave 2 (rest)"},
		turn{"it is promoted", []string{"promote", "--through", "2", "--skip-soak", "--reason", "hotfix"}, 0, "has followed Promote by ", ""},
		turn{"it passes over the wave", []string{"skip"}, 0, "has followed Skip by ", ""},
		turn{"that is the end", []string{"status", fleetLimit}, 0, "the release of v2 in FleetRollout shop/checkout has succeeded: All waves have passed\n", ""},
		turn{"nothing is paused", []string{"resume"}, 0, "FleetRollout shop/checkout is not paused; it is Succeeded", ""},
	)
	f.withdraw()
	f.override()
	f.uninstall()
}

// withdraw takes the version back, allows it again, and aborts its second release.
func (f fleetOfOne) withdraw() {
	f.play(
		turn{"the version is withdrawn", []string{"rollback", "--reason", "orders fail"}, 0, "has followed Rollback by ", "all clusters go back to their version before"},
		turn{"twice", []string{"rollback"}, 0, "the version of FleetRollout shop/checkout is withdrawn already: ", ""},
		turn{"the release has failed", []string{"status", fleetLimit}, codeFailed, "the release of v2 in FleetRollout shop/checkout has failed: ", ""},
		turn{"an abort after a withdrawal", []string{"abort"}, 1, "", "v2 is withdrawn from the clusters of FleetRollout shop/checkout, so there is nothing to abort; to allow it again: sluice fleet unblock checkout v2 -n shop"},
		turn{"another version is not blocked", []string{"unblock", "v3"}, 1, "", `"v3" is no blocked version of FleetRollout shop/checkout; blocked are v2`},
	)
	f.await("Withdrawn", "RolledBack")
	_, tree, _ := sluice(f.Context(), "get", "rollout", "checkout", "-n", "shop", "--kubeconfig", f.Kubeconfig)
	for _, want := range []string{"Fleet       FleetRollout shop/checkout of the hub\n", "Permit      go back from v2, which is withdrawn  (epoch "} {
		if !strings.Contains(tree, want) {
			f.Errorf("the tree of the Rollout lacks %q:\n%s", want, tree)
		}
	}
	f.patch(`{"spec":{"minInterval":"1h"}}`)
	f.play(turn{"the hub refuses", []string{"unblock", "v2"}, codeRefused, "", "not followed: FleetRollout shop/checkout: the command Unblock was refused: This version of Sluice does not have spec.minInterval"})
	f.patch(`{"spec":{"minInterval":null}}`)
	f.play(
		turn{"the version is allowed again", []string{"unblock", "version/v2", "--reason", "it was the database"}, 0, "has followed Unblock by ", "clusters may get version/v2 again"},
		turn{"twice", []string{"unblock", "v2"}, 0, "v2 of FleetRollout shop/checkout is not blocked any more\n", ""},
		turn{"its release is aborted", []string{"abort"}, 0, "has followed Abort by ", ""},
		turn{"twice", []string{"abort"}, 0, "the release of FleetRollout shop/checkout is aborted already: ", ""},
		turn{"that is no success", []string{"status", fleetLimit}, codeFailed, "the release of v2 in FleetRollout shop/checkout was aborted: ", ""},
		turn{"it goes on all the same", []string{"resume"}, 0, "has followed Resume by ", ""},
	)
}

// override lets a release go on in the cluster while the hub gives no permit.
func (f fleetOfOne) override() {
	f.play(
		turn{"nothing waits for a permit", []string{"override", "--reason", "CHG0099"}, 1, "", "there is nothing to override"},
		turn{"another version is released", []string{"release", "--version", "v3"}, 0, "releases v3", ""},
	)
	f.await("Waiting", "Delivery")
	f.play(
		turn{"the hub is paused", []string{"pause"}, 0, "has followed Pause by ", ""},
	)
	// The pause keeps the release in the state that the hub shows.
	f.Apply(f.T, "shop", strings.NewReplacer("VERSION", "v3", "pause: {duration: 0}", "pause: {}").Replace(fleetApp))
	f.Await(f.T, "shop", "checkout", func(r *api.Rollout) bool {
		return r.Status.Phase == api.PhaseProgressing && r.Status.Fleet.Releasing.Version == "v3"
	})
	f.play(
		turn{"why is asked for", []string{"override"}, 1, "", "an override needs a reason, which the hub shows; give one with --reason"},
		turn{"it goes on", []string{"override", "--reason", "CHG0099"}, 0, "the release of Rollout shop/checkout goes on without permits of its fleet", "its pauses and its metrics count"},
	)
	f.Do(f.T, "wait", "fleetrollout/checkout", "-n", "shop", `--for=jsonpath={.status.attention[?(@.cluster=="eu1")].reason}=Overridden`, fleetLimit)
	f.play(turn{"the hub shows it", []string{"attention"}, 0, "CHG0099", ""})
	f.Await(f.T, "shop", "checkout", world.PausedAt(1))
	if code, _, errors := sluice(f.Context(), "approve", "checkout", "-n", "shop", "--kubeconfig", f.Kubeconfig); code != 0 {
		f.Fatalf("approve ended with %d: %s", code, errors)
	}
	f.Await(f.T, "shop", "checkout", func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Fleet.Served[0].Version == "v3" })
	f.play(
		turn{"the hub goes on", []string{"resume"}, 0, "has followed Resume by ", ""},
		turn{"the cluster answers its permit", []string{"status", "--until-wave", "canary", fleetLimit}, 0, "wave canary has completed in the release of v3", ""},
	)
}

// whoMayApprove lets users with less rights give commands.
func (f fleetOfOne) whoMayApprove() {
	f.Helper()
	bind := func(user, role string) string {
		f.Do(f.T, "create", "rolebinding", user, "-n", "shop", "--clusterrole="+role, "--user="+user)
		return f.as(user)
	}
	viewer, ci := bind("vera", "sluice-fleet-viewer"), bind("ci-bot", "sluice-fleet-ci")
	for _, step := range []struct {
		user string
		args []string
		want []string
	}{
		{viewer, []string{"approve"}, []string{"error: to give the command Approve to FleetRollout shop/checkout, the user vera needs the verb approve on it, and patch on fleetrollouts/status.\n",
			"The ClusterRoles sluice-fleet-ci, sluice-fleet-app and sluice-fleet-platform have it: kubectl create rolebinding fleet-ci -n shop --clusterrole=sluice-fleet-ci --user=vera\n"}},
		{ci, []string{"pause"}, []string{"the user ci-bot needs the verb pause on it.\nThe ClusterRoles sluice-fleet-app and sluice-fleet-platform have it: "}},
		{ci, []string{"promote", "--reason", "hotfix"}, []string{"the user ci-bot needs the verb expedite on it.\nThe ClusterRole sluice-fleet-platform has it: "}},
		{viewer, []string{"release", "--version", "v3"}, []string{"error: to release a version in FleetRollout shop/checkout, the user vera needs patch on fleetrollouts.\n"}},
		{f.as("stranger"), []string{"get"}, []string{"Error from server (Forbidden): ", "The ClusterRole sluice-fleet-viewer has the rights to look"}},
	} {
		code, _, errors := sluice(f.Context(), append([]string{"fleet", step.args[0], "checkout", "-n", "shop", "--kubeconfig", step.user}, step.args[1:]...)...)
		for _, want := range step.want {
			if code != 1 || !strings.Contains(errors, want) {
				f.Errorf("%v ended with %d and lacks %q:\n%s", step.args, code, want, errors)
			}
		}
	}
	code, out, errors := sluice(f.Context(), "fleet", "get", "checkout", "-n", "shop", "--kubeconfig", ci)
	if want := "! FleetMembers cannot be shown: fleetmembers.sluice.dev is forbidden: "; code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "`- eu1  Completed") {
		f.Errorf("a user of one namespace sees, with code %d:\n%s%s", code, out, errors)
	}
}

func (f fleetOfOne) patch(body string) {
	f.Helper()
	if err := f.Patch(f.T, "shop", "fleetrollout", "checkout", body); err != nil {
		f.Fatal(err)
	}
}

func (f fleetOfOne) await(phase, reason string) {
	f.Helper()
	f.Do(f.T, "wait", "fleetrollout/checkout", "-n", "shop", "--for=jsonpath={.status.phase}="+phase, fleetLimit)
	f.Do(f.T, "wait", "fleetrollout/checkout", "-n", "shop", "--for=jsonpath={.status.reason}="+reason, fleetLimit)
}

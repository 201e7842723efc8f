package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// TestFleetCommands runs scripts about FleetRollouts whose statuses are written by hand, each in its own namespace.
func TestFleetCommands(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	params := scripts(cluster, "testdata/fleet")
	// targets applies FleetTargets that a FleetRollout owns: targets NAMESPACE FLEETROLLOUT FILE. The file has OWNER for its UID.
	params.Cmds["targets"] = func(ts *testscript.TestScript, _ bool, args []string) {
		uid, err := cluster.Kubectl(context.Background(), "get", "fleetrollout", args[1], "-n", args[0], "-o", "jsonpath={.metadata.uid}")
		ts.Check(err)
		ts.Check(cluster.Apply(context.Background(), args[0], strings.ReplaceAll(ts.ReadFile(args[2]), "OWNER", uid)))
	}
	testscript.Run(t, params)
}

func TestFleetCommandsWithoutACluster(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/fleetoffline", Setup: func(env *testscript.Env) error {
		passCoverage(env)
		return nil
	}})
}

// givenFleet is a FleetRollout that waits for an approval, without a hub.
const givenFleet = `{apiVersion: sluice.dev/v1alpha1, kind: FleetRollout, metadata: {name: checkout, namespace: %s}, spec: {
	waves: [{name: first, percent: 50, pause: {}}, {name: rest}], release: {version: v2}}}`

const givenFleetStatus = `{"status":{"epoch":%d,"began":%[1]d,"verb":"Release","release":{"version":"v2"},"plan":{"waves":[{"name":"first","percent":50,"pause":{}},{"name":"rest"}]},
	"phase":"Waiting","reason":"Approval","message":"wave first waits for approval","wave":1,"pauseSeq":%d,"transitionSeq":4,"counts":{"Completed":1},
	"waves":[{"name":"first","stage":"Pause","since":"2026-11-20T10:00:00.000000Z","began":"2026-11-20T10:00:00.000000Z","deliveryFrom":"2026-11-20T10:00:00.000000Z","clusters":["eu1"]}]}}`

func TestAFleetCommandIsNotFollowed(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	user := strings.TrimSpace(kubectl(t, cluster, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
	refused := func(action, message string) string {
		return fmt.Sprintf(`{"status":{"command":null,"transitionSeq":5,"transitions":[{"seq":5,"time":"2026-11-20T10:01:00.000000Z","to":"Waiting","reason":%q,"message":%q,"actor":%q}]}}`, action, message, user)
	}
	for name, tt := range map[string]struct {
		args []string
		// meanwhile is a patch of the status before the command is written, and answer one after that.
		meanwhile, answer string
		code              int
		errors            string
	}{
		"no executor takes it":              {args: []string{"approve", "--timeout=200ms"}, code: codeUndecided, errors: "undecided: the command Approve for FleetRollout NS/checkout is written, and no executor of the hub has taken it within 200ms."},
		"another write comes before":        {args: []string{"pause", "--timeout=200ms"}, meanwhile: `{"status":{"message":"another one"}}`, code: codeUndecided, errors: "undecided: the command Pause "},
		"another pause comes before":        {args: []string{"approve"}, meanwhile: fmt.Sprintf(givenFleetStatus, 7, 4), code: 1, errors: "not given, the release of FleetRollout NS/checkout has moved meanwhile: wave first waits for approval"},
		"another release comes before":      {args: []string{"rollback"}, meanwhile: fmt.Sprintf(givenFleetStatus, 8, 3), code: 1, errors: "not given, the release of FleetRollout NS/checkout has moved meanwhile"},
		"another command comes before":      {args: []string{"abort"}, meanwhile: `{"status":{"command":{"action":"Pause","epoch":7,"actor":"kim"}}}`, code: 1, errors: "FleetRollout NS/checkout has a command already, which the hub has not taken: Pause by kim."},
		"the hub refuses":                   {args: []string{"abort"}, answer: refused("CommandRefused", "the command Abort was refused: the moon is full"), code: codeRefused, errors: "not followed: FleetRollout NS/checkout: the command Abort was refused: the moon is full"},
		"another command takes its place":   {args: []string{"abort"}, answer: `{"status":{"command":{"action":"Pause","epoch":7,"actor":"kim"}}}`, code: codeRefused, errors: "not followed: kim has told FleetRollout NS/checkout something else meanwhile (Pause)"},
		"the answer is not on record":       {args: []string{"abort"}, answer: `{"status":{"command":null}}`, code: codeUndecided, errors: "undecided: the hub has taken the command Abort, and its answer is not on record any more."},
		"the FleetRollout is deleted":       {args: []string{"abort"}, answer: "deleted", code: 1, errors: "Error from server (NotFound): there is no FleetRollout checkout in namespace NS."},
		"the comment is too long":           {args: []string{"abort", "--reason", strings.Repeat("x", 1025)}, code: 1, errors: "the reason has 1025 characters; give at most 1024"},
		"the hub follows a command of ours": {args: []string{"rollback"}, answer: refused("RolledBack", "Rollback by "+user), code: 0, errors: "all clusters go back to their version before"},
		"a timed pause cannot be approved":  {args: []string{"approve"}, meanwhile: `{"status":{"plan":{"waves":[{"name":"first","percent":50,"pause":{"duration":60}},{"name":"rest"}]}}}`, code: 1, errors: "the pause of wave first ends by itself, and an approval does not shorten it"},
		"a refusal of another user's command": {args: []string{"abort", "--timeout=300ms"}, answer: `{"status":{"transitionSeq":5,"transitions":[{"seq":5,"time":"2026-11-20T10:01:00.000000Z","to":"Waiting","reason":"CommandRefused","message":"the command Abort was refused","actor":"kim"}]}}`,
			code: codeUndecided, errors: "undecided: the command Abort "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := controlplane.NamespaceFor(t)
			kubectl(t, cluster, "", "create", "namespace", namespace)
			apply(t, cluster, fmt.Sprintf(givenFleet, namespace))
			patch := func(text string) {
				kubectl(t, cluster, "", "patch", "fleetrollout", "checkout", "-n", namespace, "--subresource=status", "--type=merge", "-p", text)
			}
			patch(fmt.Sprintf(givenFleetStatus, 7, 3))
			kubeconfig := beforeFirstPatch(t, cluster.Config, func() {
				if tt.meanwhile != "" {
					patch(tt.meanwhile)
				}
			})
			args := append([]string{"fleet", tt.args[0], "checkout", "-n", namespace, "--kubeconfig", kubeconfig}, tt.args[1:]...)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if tt.answer == "" {
					return
				}
				if _, err := cluster.Kubectl(t.Context(), "wait", "fleetrollout/checkout", "-n", namespace, "--for=jsonpath={.status.command.actor}="+user, "--timeout=600s"); err != nil {
					t.Error(err)
				}
				answer := []string{"patch", "fleetrollout", "checkout", "-n", namespace, "--subresource=status", "--type=merge", "-p", tt.answer}
				if tt.answer == "deleted" {
					answer = []string{"delete", "fleetrollout", "checkout", "-n", namespace}
				}
				if _, err := cluster.Kubectl(t.Context(), answer...); err != nil {
					t.Error(err)
				}
			}()
			code, out, errors := sluice(t.Context(), args...)
			<-answered
			if want := strings.ReplaceAll(tt.errors, "NS", namespace); code != tt.code || !strings.Contains(errors, want) {
				t.Errorf("it ended with %d, want %d and %q:\n%s%s", code, tt.code, want, out, errors)
			}
		})
	}
}

// The messages of commands name the shipped roles that have a verb.
func TestRolesOfFleetVerbs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "rbac", "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string][]string{}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "fleetrollouts") {
				for _, verb := range rule.Verbs {
					has[verb] = append(has[verb], role.Name)
				}
			}
		}
	}
	for _, action := range []api.FleetCommandAction{
		api.FleetCommandApprove, api.FleetCommandReject, api.FleetCommandPause, api.FleetCommandResume, api.FleetCommandRollback, api.FleetCommandAbort,
		api.FleetCommandRetry, api.FleetCommandSkip, api.FleetCommandPromote, api.FleetCommandUnblock,
	} {
		verb := commandVerbOf(action)
		if diff := cmp.Diff(slices.Sorted(slices.Values(has[verb])), slices.Sorted(slices.Values(rolesWith(verb)))); diff != "" {
			t.Errorf("%s (-deployed +named):\n%s", verb, diff)
		}
	}
}

// The tree and the tables of a release are shown again when one of their objects changes.
func TestAFleetIsWatched(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	namespace := controlplane.NamespaceFor(t)
	kubectl(t, cluster, "", "create", "namespace", namespace)
	apply(t, cluster, fmt.Sprintf(givenFleet, namespace))
	w := startCommand(t, "fleet", "get", "checkout", "-n", namespace, "-w", "--kubeconfig", cluster.Kubeconfig)
	w.await(t, "FleetRollout  "+namespace+"/checkout")
	list := startCommand(t, "fleet", "list", "-n", namespace, "-w", "--kubeconfig", cluster.Kubeconfig)
	list.awaitPart(t, "checkout ")
	targets := startCommand(t, "fleet", "targets", "checkout", "-n", namespace, "-w", "--kubeconfig", cluster.Kubeconfig)
	members := startCommand(t, "fleet", "members", "-l", "of="+namespace, "-w", "--kubeconfig", cluster.Kubeconfig)
	if _, err := cluster.Kubectl(context.WithoutCancel(t.Context()), "patch", "fleetrollout", "checkout", "-n", namespace, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(givenFleetStatus, 7, 3)); err != nil {
		t.Fatal(err)
	}
	w.await(t, "Phase         Waiting (Approval)")
	list.awaitPart(t, "Waiting ")
	targets.awaitPart(t, "1 first ")
	apply(t, cluster, fmt.Sprintf(`{apiVersion: sluice.dev/v1alpha1, kind: FleetMember, metadata: {name: %s, labels: {of: %[1]s}}, spec: {key: U%s}}`, namespace, strings.Repeat("A", 55)))
	members.awaitPart(t, namespace)
}

// awaitPart reads until a line has come that has this text.
func (w *watching) awaitPart(t *testing.T, part string) {
	t.Helper()
	var text []string
	for line := range w.lines {
		if text = append(text, line); strings.Contains(line, part) {
			return
		}
	}
	t.Fatalf("%q was never shown:\n%s", part, strings.Join(text, "\n"))
}

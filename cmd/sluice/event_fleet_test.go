package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"sluice.dev/sluice/deploy/nats/trial"
)

// fleetSite is the FleetRollout of docs/approvals.md.
const fleetSite = `
apiVersion: sluice.dev/v1alpha1
kind: FleetRollout
metadata: {name: checkout, namespace: shop}
spec: {waves: [{name: canary, pause: {}}]}
`

// aFleetPipeline is a pipeline whose cluster is the hub of a fleet and its only member, with the permissions of deploy/nats.
func aFleetPipeline(t *testing.T) *pipeline {
	t.Helper()
	hub, member := nkeyPair(t), nkeyPair(t)
	p := aPipelineOf(t, func(p *pipeline) []string {
		file := func(name, text string) string {
			path := filepath.Join(p.dir, name)
			p.write(path, text)
			return path
		}
		seed := func(pair nkeys.KeyPair) string {
			text, err := pair.Seed()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		apply(t, p.cluster, "apiVersion: sluice.dev/v1alpha1\nkind: FleetMember\nmetadata: {name: eu1}\nspec: {key: "+publicOf(t, member)+"}\n")
		return []string{
			"--fleet-hub-key-file", file("hub.key", seed(hub)), "--fleet-member", "eu1", "--fleet-member-key-file", file("member.key", seed(member)),
			"--fleet-hub-public-keys-file", file("hub.pub", publicOf(t, hub)), "--fleet-nats-url", p.nats, "--fleet-nats-password-file", file("eu1.password", trial.Password("eu1")),
		}
	}, "eu1")
	kubectl(t, p.cluster, "", "wait", "fleetmember/eu1", "--for=jsonpath={.status.phase}=Ready", fleetLimit)
	return p
}

// beginFleet removes an earlier release, and begins again with version v1 in the cluster, and v2 held.
func (p *pipeline) beginFleet() {
	p.Helper()
	kubectl(p.T, p.cluster, "", "delete", "-n", "shop", "fleetrollout,rollout,deployment", "--all", fleetLimit)
	apply(p.T, p.cluster, strings.ReplaceAll(fleetApp, "VERSION", "v1"))
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "rollout/checkout", "--for=jsonpath={.status.fleet.served[0].version}=v1", fleetLimit)
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "deployment/checkout", "--for=condition=Available", fleetLimit)
	apply(p.T, p.cluster, fleetSite)
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "fleetrollout/checkout", "--for=jsonpath={.status.phase}=Idle", fleetLimit)
	apply(p.T, p.cluster, strings.ReplaceAll(fleetApp, "VERSION", "v2"))
}

// fleetStatus returns a part of the FleetRollout.
func (p *pipeline) fleetStatus(path string) string {
	p.Helper()
	return kubectl(p.T, p.cluster, "", "get", "-n", "shop", "fleetrollout/checkout", "-o", "jsonpath="+path)
}

// TestAPipelineOfAFleet takes releases from an event over an approval to their end, with a token and without a kubeconfig.
func TestAPipelineOfAFleet(t *testing.T) {
	t.Parallel()
	p := aFleetPipeline(t)
	p.grantBy("fleet-grant")
	as := func(t *testing.T) *pipeline { return &pipeline{t, p.cluster, p.dir, p.nats, p.url, p.stopExecutor} }
	t.Run("releases by each command of the document", func(t *testing.T) { as(t).runTheFleetDocument() })
	t.Run("counts each event once, for its own release and wave", func(t *testing.T) { as(t).attackFleet() })
}

func (p *pipeline) runTheFleetDocument() {
	t, all := p.T, blocks(p.T)
	delete(all, "fleet-grant")
	for _, c := range []struct{ name, approvals string }{
		{"fleet-cli", "1 approve system:serviceaccount:shop:ci e2e green;"}, {"fleet-github", "1 approve system:serviceaccount:shop:ci e2e green;"}, {"fleet-nats", ""},
	} {
		scripts, env := []string{all[c.name]}, []string{"GITHUB_ENV=" + filepath.Join(p.dir, c.name)}
		if scripts[0] == "" {
			t.Errorf("the document has no block %s", c.name)
			continue
		}
		delete(all, c.name)
		if c.name == "fleet-github" {
			var github []string
			scripts, github = p.workflowSteps(scripts[0], "release")
			env = append(env, github...)
			if !commandsExist("curl", "jq") {
				t.Log("the workflow is not run, there is no curl or no jq here")
				continue
			}
		}
		p.beginFleet()
		for i, script := range scripts {
			out, err := p.shell(script, append(env, p.written(c.name)...)...)
			t.Logf("%s, step %d:\n%s", c.name, i+1, out)
			if err != nil {
				t.Fatalf("%s, step %d: %v", c.name, i+1, err)
			}
		}
		if diff := cmp.Diff(c.approvals, p.fleetStatus("{range .status.approvals[*]}{.wave} {.decision} {.actor} {.comment};{end}")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		want := map[bool]string{true: "Succeeded", false: ""}[c.approvals != ""]
		if phase := p.fleetStatus("{.status.phase}"); want != "" && phase != want {
			t.Errorf("%s: the release is %s", c.name, phase)
		}
		if version := p.fleetStatus("{.spec.release.version}"); version != "v2" {
			t.Errorf("%s: the FleetRollout names %q", c.name, version)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "fleet-") {
			t.Errorf("no test runs the block %s of the page", name)
		}
	}
}

func commandsExist(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// written returns the variables that earlier steps of a workflow have written, as a runner does.
func (p *pipeline) written(name string) []string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		p.Fatal(err)
	}
	return strings.Fields(string(text))
}

// turnFleet runs `sluice event fleet` without a kubeconfig. The texts are regular expressions.
func (p *pipeline) turnFleet(what string, code int, stdout, stderr string, args ...string) string {
	p.Helper()
	all := append([]string{"event", "fleet"}, args...)
	all = append(all, "-n", "shop", "--kubeconfig", filepath.Join(p.dir, "no kubeconfig"), "--server", p.url, "--server-ca", filepath.Join(p.dir, "ca.crt"))
	if !strings.Contains(strings.Join(args, " "), "--token-file") {
		all = append(all, "--token-file", filepath.Join(p.dir, "token"))
	}
	got, out, errors := sluice(p.Context(), all...)
	if got != code || !regexp.MustCompile(stdout).MatchString(out) || !regexp.MustCompile(stderr).MatchString(errors) {
		p.Errorf("%s: code %d, want %d\nstdout: %s\nstderr: %s", what, got, code, out, errors)
	}
	return out
}

func (p *pipeline) attackFleet() {
	t := p.T
	p.beginFleet()
	p.write(filepath.Join(p.dir, "stranger"), kubectl(t, p.cluster, "", "create", "token", "default", "-n", "shop", "--audience=sluice"))
	stranger := []string{"--token-file", filepath.Join(p.dir, "stranger")}
	p.turnFleet("nothing is released", codeUndecided, `^$`, `has not ended after`, "status", "checkout", "--version", "v2", "--timeout", "2s")
	p.turnFleet("a stranger releases", codeRefused, `^$`, `^refused: NotAllowed: .*may not release FleetRollout shop/checkout.*--clusterrole=sluice-fleet-ci`, append([]string{"release", "checkout", "--version", "v2"}, stranger...)...)
	p.turnFleet("a stranger asks", codeRefused, `^$`, `^refused: NotAllowed: .*may not get FleetRollout`, append([]string{"status", "checkout"}, stranger...)...)
	p.turnFleet("another plan", codeRefused, `^$`, `^refused: NotAllowed: .*may not use FleetPlan hotfix`, "release", "checkout", "--version", "v2", "--plan", "hotfix")
	p.turnFleet("another FleetRollout", codeRefused, `^$`, `^refused: UnknownRollout`, "release", "chekcout", "--version", "v2")
	p.turnFleet("a version that is a sentence", 1, `^$`, `ASCII characters without spaces`, "release", "checkout", "--version", "version 2")

	var first struct{ Data struct{ Epoch int64 } }
	out := p.turnFleet("the release", 0, `"accepted": true`, `^$`, "release", "checkout", "--version", "v2", "--source", "/ci/1", "--id", "r1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &first); err != nil {
		t.Fatal(err)
	}
	uid, epoch := p.fleetStatus("{.metadata.uid}"), p.fleetStatus("{.status.epoch}")
	if epoch != fmt.Sprint(first.Data.Epoch) {
		t.Errorf("the answer has the epoch %d, the status has %s", first.Data.Epoch, epoch)
	}
	p.turnFleet("the wave completes", 0, `wave canary has completed`, ``, "status", "checkout", "--uid", uid, "--epoch", epoch, "--until-wave", "canary", "--timeout", "10m")
	p.turnFleet("a person must act", codeRefused, `waits for a person`, ``, "status", "checkout", "--uid", uid, "--epoch", epoch, "--timeout", "10m")
	approve := func(what, refusal string, args ...string) {
		t.Helper()
		code, stdout, stderr := codeRefused, `^$`, `^refused: `+refusal+`: `
		if refusal == "" {
			code, stdout, stderr = 0, `accepted: wave canary was approved by system:serviceaccount:shop:ci`, `^$`
		}
		p.turnFleet(what, code, stdout, stderr, append([]string{"approve", "checkout"}, args...)...)
	}
	approve("another uid", "WrongRelease", "--uid", "2a6f", "--epoch", epoch, "--wave", "canary")
	approve("another epoch", "WrongRelease", "--uid", uid, "--epoch", fmt.Sprint(first.Data.Epoch-1), "--wave", "canary")
	approve("another wave", "WrongWave", "--uid", uid, "--epoch", epoch, "--wave", "everyone")
	approve("another version", "WrongRelease", "--version", "v9", "--wave", "canary")
	approve("a stranger", "NotAllowed", append([]string{"--uid", uid, "--epoch", epoch, "--wave", "canary"}, stranger...)...)
	if n := p.fleetStatus("{.status.approvals}"); n != "" {
		t.Fatalf("one of these counts: %s", n)
	}
	for _, body := range []string{"approve!", "[]", `{"specversion": "1.0"}`, `{"specversion":"1.0","type":"dev.sluice.fleet.release.v1","source":"/ci","id":"1","subject":"namespaces/shop/fleetrollouts/checkout","data":{"version":7}}`} {
		out, err := p.shell(`curl --silent --cacert ca.crt --output /dev/null --write-out '%{http_code}' https://sluice.example.com/v1/events --header "Authorization: Bearer $(cat token)" --header "Content-Type: application/cloudevents+json" --data @- <<'END'` + "\n" + body + "\nEND\n")
		if commandsExist("curl") && (err != nil || out != "400") {
			t.Errorf("%s is answered with %s: %v", body, out, err)
		}
	}
	decision := []string{"--uid", uid, "--epoch", epoch, "--wave", "canary", "--source", "/ci/1", "--id", "a1"}
	approve("the wave", "", decision...)
	approve("the same event again", "", decision...)
	p.turnFleet("the end", 0, `has succeeded`, ``, "status", "checkout", "--uid", uid, "--epoch", epoch, "--timeout", "10m")
	approve("a wave of a release that has ended", "NotInProgress", "--uid", uid, "--epoch", epoch, "--wave", "canary")

	p.turnFleet("the next version", 0, `accepted`, `^$`, "release", "checkout", "--version", "v3", "--source", "/ci/1", "--id", "r2")
	p.turnFleet("the first event again", 0, fmt.Sprintf(`"epoch": %s`, epoch), `^$`, "release", "checkout", "--version", "v2", "--source", "/ci/1", "--id", "r1", "-o", "json")
	if version := p.fleetStatus("{.spec.release.version}"); version != "v3" {
		t.Errorf("an event that was sent again has released %s", version)
	}
	p.turnFleet("the first release was superseded", codeSuperseded, `was superseded by`, ``, "status", "checkout", "--uid", uid, "--epoch", epoch)
	p.turnFleet("an epoch that is over", codeRefused, `^$`, `^refused: WrongRelease`, "release", "checkout", "--version", "v4", "--epoch", epoch)
	approve("the first release", "WrongRelease", "--uid", uid, "--epoch", epoch, "--wave", "canary")

	kubectl(t, p.cluster, "", "wait", "-n", "shop", "fleetrollout/checkout", "--for=jsonpath={.status.release.version}=v3", fleetLimit)
	kubectl(t, p.cluster, "", "wait", "-n", "shop", "fleetrollout/checkout", "--for=jsonpath={.status.wave}=1", fleetLimit)
	third := []string{"--uid", uid, "--epoch", p.fleetStatus("{.status.epoch}"), "--wave", "canary"}
	p.turnFleet("a rejection", 0, `accepted: wave canary was rejected by system:serviceaccount:shop:ci: e2e red`, `^$`, append([]string{"reject", "checkout", "--comment", "e2e red"}, third...)...)
	kubectl(t, p.cluster, "", "wait", "-n", "shop", "fleetrollout/checkout", "--for=jsonpath={.status.reason}=Rejected", fleetLimit)
	p.turnFleet("a rejected release", codeRefused, `waits for a person: The release was rejected by`, ``, "status", "checkout", "--version", "v3", "--timeout", "10m")
	approve("a rejected wave", "AlreadyDecided", third...)
	if told := p.told(); !strings.Contains(told, "fleet.release.started") || !strings.Contains(told, "fleet.wave.approved") || !strings.Contains(told, "fleet.cluster.completed") {
		t.Errorf("the events are:\n%s", told)
	}
}

// told returns what the hub has told of the FleetRollout.
func (p *pipeline) told() string {
	p.Helper()
	password := filepath.Join(p.dir, "admin.password")
	p.write(password, trial.Password("admin"))
	code, out, errors := sluice(p.Context(), "events", "--fleet", "checkout", "-n", "shop", "--kubeconfig", p.cluster.Kubeconfig, "--nats-url", p.nats, "--nats-user", "admin", "--nats-password-file", password)
	if code != 0 {
		p.Fatal(errors)
	}
	return out
}

// askNoHub sends an event about a FleetRollout to a cluster that is not a hub.
func (p *pipeline) askNoHub() {
	p.Helper()
	password := filepath.Join(p.dir, "fleet.password")
	p.write(password, trial.Password("ci-shop-fleet"))
	code, _, errors := sluice(p.Context(), "event", "fleet", "release", "checkout", "--version", "v2", "-n", "shop", "--kubeconfig", p.cluster.Kubeconfig,
		"--nats-url", p.nats, "--nats-user", "ci-shop-fleet", "--nats-password-file", password)
	if code != codeRefused || !strings.HasPrefix(errors, "refused: NotAHub: ") {
		p.Errorf("the command ends with %d: %s", code, errors)
	}
}

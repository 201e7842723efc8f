package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/deploy/nats/trial"
)

func TestAPipeline(t *testing.T) {
	t.Parallel()
	p := aPipeline(t)
	p.grant()
	as := func(t *testing.T) *pipeline { return &pipeline{t, p.cluster, p.dir, p.nats, p.url, p.stopExecutor} }
	t.Run("approves by each command of the document", func(t *testing.T) { as(t).runTheDocument() })
	t.Run("hears that the cluster is no hub", func(t *testing.T) { as(t).askNoHub() })
	t.Run("decides with one command and knows the outcome by its exit code", func(t *testing.T) { as(t).decide() })
}

func (p *pipeline) decide() {
	t := p.T
	p.release()
	const good, old = "--image=registry.example.com/checkout:v2", "--image=registry.example.com/checkout:v1"
	nats := []string{"--nats-url", p.nats, "--nats-user", "ci-shop", "--nats-password-file", filepath.Join(p.dir, "ci.password")}
	receiver := []string{"--server", p.url, "--server-ca", filepath.Join(p.dir, "ca.crt"), "--token-file", filepath.Join(p.dir, "token")}
	p.write(filepath.Join(p.dir, "ci.password"), trial.Password("ci-shop"))
	p.write(filepath.Join(p.dir, "stranger"), kubectl(t, p.cluster, "", "create", "token", "default", "-n", "shop", "--audience=sluice"))
	type step struct {
		what   string
		args   []string
		code   int
		stdout string
		stderr string
	}
	run := func(s step) {
		t.Helper()
		code, out, errors := sluice(t.Context(), append([]string{"event", "--kubeconfig", p.cluster.Kubeconfig, "-n", "shop"}, s.args...)...)
		if code != s.code || !regexp.MustCompile(s.stdout).MatchString(out) || !regexp.MustCompile(s.stderr).MatchString(errors) {
			t.Errorf("%s: code %d, want %d\nstdout: %s\nstderr: %s", s.what, code, s.code, out, errors)
		}
	}
	with := func(transport []string, args ...string) []string { return append(args, transport...) }
	for _, s := range []step{
		{"the old version, by NATS", with(nats, "approve", "checkout", old), 3, `^$`, `^refused: WrongRelease: `},
		{"the old version, by the receiver", with(receiver, "approve", "checkout", old), 3, `^$`, `^refused: WrongRelease: `},
		{"the wrong step, as JSON", with(receiver, "approve", "checkout", good, "--step", "2", "-o", "json"), 3, `"refusal": "WrongStep"`, `^refused: WrongStep: `},
		{"an unknown Rollout", with(nats, "approve", "chekcout", good), 3, `^$`, `^refused: UnknownRollout: `},
		{"as another principal", with(nats, "approve", "checkout", good, "--principal", "alice"), 1, `^$`, `Permissions Violation.*checkout\.alice.*Correct --principal`},
		{"in another namespace", with(nats, "approve", "checkout", good, "-n", "bank"), 1, `^$`, `Permissions Violation.*bank`},
		{"as one who may not", append(with(receiver, "approve", "checkout", good), "--token-file", filepath.Join(p.dir, "stranger")), 3, `^$`, `^refused: NotAllowed: .*kubectl create rolebinding`},
		{"with a bad token", with(receiver[:4], "approve", "checkout", good, "--token", "x"), 1, `^$`, `could not be sent: .*The token is not valid`},
		{"without a token", with(receiver[:4], "approve", "checkout", good), 1, `^$`, `say who you are`},
		{"by NATS", with(nats, "approve", "checkout", good, "--step", "1", "--comment", "e2e green", "--id", "one"), 0, `^accepted: .*\n$`, `^$`},
		{"the same again", with(nats, "approve", "checkout", good, "--step", "1", "--comment", "e2e green", "--id", "one"), 0, `^accepted: .*\n$`, `^$`},
	} {
		run(s)
	}
	p.pausedAt(2)
	for _, s := range []step{
		{"rejected by a service account", append(receiver[:4:4], "reject", "checkout", good, "--service-account", "ci", "-o", "yaml"), 0, `(?m)^  accepted: true$`, `^$`},
		{"approved after that", with(nats, "approve", "checkout", good), 3, `^$`, `^refused: AlreadyDecided: `},
	} {
		run(s)
	}
	want := "1 approve ci-shop e2e green;2 reject system:serviceaccount:shop:ci ;"
	if diff := cmp.Diff(want, p.approvals()); diff != "" {
		t.Errorf("status.approvals: %s", diff)
	}
	p.stopExecutor()
	undecided := sync.WaitGroup{}
	for _, s := range []step{
		{"nobody decides, by NATS", with(nats, "approve", "checkout", good, "--timeout", "10s"), 4, `^$`, `(?m)^undecided: .*sluice check.*--source "/sluice/cli" --id `},
		{"nobody decides, by the receiver", with(receiver, "approve", "checkout", good, "--timeout", "10s"), 4, `^$`, `(?m)^undecided: `},
	} {
		undecided.Go(func() { run(s) })
	}
	undecided.Wait()
	for _, s := range []step{
		{"nobody waits, by NATS", with(nats, "approve", "checkout", good, "--wait=false"), 0, `^sent: source /sluice/cli, id `, `^$`},
		{"nobody waits, by the receiver", with(receiver, "approve", "checkout", good, "--wait=false", "-o", "json"), 0, `"type": "dev.sluice.approval.v1"`, `^$`},
	} {
		run(s)
	}
}

// A receiver that is away for a moment does not fail a pipeline. An address that is not a receiver gets the token only once.
func TestTheReceiverIsTriedAgainAndNoTokenFollowsARedirect(t *testing.T) {
	t.Parallel()
	const event = `{"specversion":"1.0","type":"dev.sluice.approval.v1","source":"/ci","id":"1","subject":"namespaces/shop/rollouts/web","datacontenttype":"application/json","data":{"decision":"approve","rolloutID":"v1"}}`
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte(event), 0o600); err != nil {
		t.Fatal(err)
	}
	decided := map[string]string{"ce-specversion": "1.0", "ce-type": "dev.sluice.approval.decided.v1", "ce-id": "x", "ce-source": "/clusters/default/namespaces/shop/rollouts/web", "content-type": "application/json"}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect is followed, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter, *http.Request)
		code    int
		want    string
	}{
		"later, undecided, then accepted": {[]func(http.ResponseWriter, *http.Request){
			func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"message":"Later."}`, http.StatusServiceUnavailable)
			},
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) },
			func(w http.ResponseWriter, r *http.Request) {
				for name, value := range decided {
					w.Header().Set(name, value)
				}
				_ = json.NewEncoder(w).Encode(map[string]any{"accepted": true, "message": "Done."})
			},
		}, 0, "accepted: Done.\nwarning: the approval receiver does not take the event yet, trying on: 127"},
		"a redirect": {[]func(http.ResponseWriter, *http.Request){
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			},
		}, 1, "error: the decision could not be sent: 127"},
		"some other server": {[]func(http.ResponseWriter, *http.Request){
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") },
		}, 1, "does not answer as the approval receiver of Sluice does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turn := make(chan func(http.ResponseWriter, *http.Request), len(c.answers))
			for _, a := range c.answers {
				turn <- a
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/events" || r.Header.Get("Authorization") != "Bearer t" {
					t.Errorf("%s %v", r.URL, r.Header)
				}
				select {
				case a := <-turn:
					a(w, r)
				default:
					t.Error("it is tried more often than that")
				}
			}))
			t.Cleanup(server.Close)
			code, out, errors := sluice(context.WithoutCancel(t.Context()), "event", "send", "-f", file, "--server", server.URL, "--token", "t", "--timeout", "600s")
			if code != c.code || !strings.Contains(out+errors, c.want) || len(turn) > 0 {
				t.Errorf("code %d, want %d, %d answers left\n%s%s", code, c.code, len(turn), out, errors)
			}
		})
	}
}

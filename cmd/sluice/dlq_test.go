package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/queue"
)

// letters stores dead letters in an archive, as executors write them.
func (a *archive) letters(list ...queue.DeadLetter) {
	a.Helper()
	nc, err := nats.Connect(a.server.URL(), nats.UserInfo(a.server.User(), a.server.Password()))
	if err != nil {
		a.Fatal(err)
	}
	defer nc.Close()
	for _, l := range list {
		body, err := json.Marshal(l)
		if err != nil {
			a.Fatal(err)
		}
		if _, err := nc.Request(l.Key.DeadLetterSubject(), body, 10*time.Second); err != nil {
			a.Fatal(err)
		}
	}
}

func aLetter(cluster, namespace, name string, reason queue.Reason) queue.DeadLetter {
	since := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second)
	return queue.DeadLetter{
		Key: queue.Key{Cluster: cluster, Namespace: namespace, Name: name}, Reason: reason, Attempts: 20, Since: since, Time: since.Add(time.Hour),
		Process: "executor-1", Error: "carry out rollout " + namespace + "/" + name + ": the first line of a very long explanation\nand the second",
	}
}

// runs runs a command against the archive, in the namespace shop, and returns its output.
func (a *archive) runs(args ...string) (out, errors string, code int) {
	a.Helper()
	a.Setenv("KUBECONFIG", "/nonexistent")
	var stdout, stderr bytes.Buffer
	all := append([]string{"sluice", "-n", "shop"}, append(args, a.args...)...)
	ctx, cancel := context.WithTimeout(a.Context(), 10*time.Minute)
	defer cancel()
	code = executeCommand(ctx, all, &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	a := newArchive(t)
	failing, dead := aLetter("eu-1", "shop", "checkout", queue.Failing), aLetter("eu-1", "shop", "web.v2", queue.Abandoned)
	other := aLetter("us-1", "test", "checkout", queue.Abandoned)
	a.letters(failing, dead, other)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a table": {[]string{"dlq", "list"}, "" +
			"NAME       TASK      REASON      ATTEMPTS   LAST   ERROR\n" +
			"checkout   release   Failing     20         60m    carry out rollout shop/checkout: the first line of a very...\n" +
			"web.v2     release   Abandoned   20         60m    carry out rollout shop/web.v2: the first line of a very l...\n"},
		"all namespaces": {[]string{"dlq", "list", "-A", "-o", "wide"}, "" +
			"NAMESPACE   NAME       CLUSTER   TASK      REASON      ATTEMPTS   SINCE   LAST   PROCESS      ERROR\n" +
			"shop        checkout   eu-1      release   Failing     20         120m    60m    executor-1   carry out rollout shop/checkout: the first line of a very long explanation and the second\n" +
			"shop        web.v2     eu-1      release   Abandoned   20         120m    60m    executor-1   carry out rollout shop/web.v2: the first line of a very long explanation and the second\n" +
			"test        checkout   us-1      release   Abandoned   20         120m    60m    executor-1   carry out rollout test/checkout: the first line of a very long explanation and the second\n"},
		"a cluster": {[]string{"dlq", "list", "-A", "--cluster", "us-1", "-o", "name"}, "rollout.rollouts.kruise.io/checkout\n"},
		"names":     {[]string{"dlq", "ls", "-o", "name"}, "rollout.rollouts.kruise.io/checkout\nrollout.rollouts.kruise.io/web.v2\n"},
		"one of them": {[]string{"dlq", "show", "rollout/web.v2"}, "" +
			"Rollout   shop/web.v2\nCluster   eu-1\nTask      release\nReason    Abandoned\nAttempts  20\nSince     " + dead.Since.Format(time.RFC3339) + "\nWritten   " + dead.Time.Format(time.RFC3339) + "\n" +
			"By        executor-1\nError     carry out rollout shop/web.v2: the first line of a very long explanation\n          and the second\n\n" +
			"Each process that took it up died or lost NATS. No process takes it up again until something about it changes.\n" +
			"When you have fixed the cause, type:\n  sluice dlq retry web.v2 -n shop\n"},
	} {
		out, errors, code := a.runs(tt.args...)
		if diff := cmp.Diff(tt.want, out); diff != "" || code != 0 || errors != "" {
			t.Errorf("%s: exit code %d, %s(-want +got):\n%s", name, code, errors, diff)
		}
	}

	out, _, _ := a.runs("dlq", "show", "checkout", "-o", "yaml")
	var got queue.DeadLetter
	if err := yaml.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(failing, got); diff != "" {
		t.Errorf("as yaml (-want +got):\n%s", diff)
	}
	out, _, _ = a.runs("dlq", "list", "-A", "-o", "json")
	var list []queue.DeadLetter
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]queue.DeadLetter{failing, dead, other}, list); diff != "" {
		t.Errorf("as json (-want +got):\n%s", diff)
	}
}

// A release and its measurements are two tasks; each may have a letter.
func TestDeadLettersAboutMeasurements(t *testing.T) {
	a := newArchive(t)
	release, analysis := aLetter("eu-1", "shop", "checkout", queue.Failing), aLetter("eu-1", "shop", "checkout", queue.Failing)
	analysis.Key.Task, analysis.Error = queue.TaskAnalysis, "boom"
	a.letters(release, analysis)
	for name, tt := range map[string]struct {
		args         []string
		out, problem string
	}{
		"both are listed": {args: []string{"dlq", "list", "--cluster", "eu-1"}, out: "" +
			"NAME       TASK       REASON    ATTEMPTS   LAST   ERROR\n" +
			"checkout   release    Failing   20         60m    carry out rollout shop/checkout: the first line of a very...\n" +
			"checkout   analysis   Failing   20         60m    boom\n"},
		"one task": {args: []string{"dlq", "list", "--task", "analysis"}, out: "" +
			"NAME       TASK       REASON    ATTEMPTS   LAST   ERROR\n" +
			"checkout   analysis   Failing   20         60m    boom\n"},
		"a name is given once": {args: []string{"dlq", "list", "-o", "name"}, out: "rollout.rollouts.kruise.io/checkout\n"},
		"one is to be chosen": {args: []string{"dlq", "show", "checkout"},
			problem: "error: there are dead letters about both the release and the analysis of Rollout checkout; choose one with --task\n"},
		"the chosen one": {args: []string{"dlq", "show", "checkout", "--task", "analysis"}, out: "" +
			"Rollout   shop/checkout\nCluster   eu-1\nTask      analysis\nReason    Failing\nAttempts  20\n" +
			"Since     " + analysis.Since.Format(time.RFC3339) + "\nWritten   " + analysis.Time.Format(time.RFC3339) + "\nBy        executor-1\nError     boom\n\n" +
			"Its runs fail, one after the other. A process retries it about every minute.\n" +
			"When the cause is fixed it recovers by itself; to retry it at once, type:\n  sluice dlq retry checkout -n shop --task analysis\n"},
		"a task that does not exist": {args: []string{"dlq", "list", "--task", "paint"}, problem: "error: --task \"paint\": use release, analysis, routing or fleet\n"},
	} {
		out, problem, _ := a.runs(tt.args...)
		if diff := cmp.Diff(tt.out+tt.problem, out+problem); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	out, problem, _ := a.runs("dlq", "retry", "checkout")
	if want := "rollout.rollouts.kruise.io/checkout is retried\nthe analysis of rollout.rollouts.kruise.io/checkout is retried\n"; out+problem != want {
		t.Errorf("both are retried: %q", out+problem)
	}
	if letters, err := a.queue.ListDeadLetters(t.Context(), "", ""); err != nil || len(letters) > 0 {
		t.Errorf("letters are left: %+v, %v", letters, err)
	}
}

func TestDeadLettersAreCompleted(t *testing.T) {
	a := newArchive(t)
	a.letters(aLetter("eu-1", "shop", "checkout", queue.Failing), aLetter("eu-1", "test", "web", queue.Failing))
	a.Setenv("KUBECONFIG", "/nonexistent")
	var out, errors bytes.Buffer
	args := append([]string{"sluice", "__complete", "-n", "shop", "dlq", "retry"}, append(a.args, "")...)
	executeCommand(t.Context(), args, &out, &errors)
	if got, _, _ := strings.Cut(out.String(), "\n:"); got != "checkout" {
		t.Errorf("offered: %q %s", out.String(), errors.String())
	}
}

func TestDeadLettersAreRetried(t *testing.T) {
	a := newArchive(t)
	keys := []queue.Key{{Cluster: "eu-1", Namespace: "shop", Name: "checkout"}, {Cluster: "us-1", Namespace: "shop", Name: "checkout"},
		{Cluster: "eu-1", Namespace: "shop", Name: "web"}, {Cluster: "eu-1", Namespace: "test", Name: "web"}}
	for _, k := range keys {
		a.letters(aLetter(k.Cluster, k.Namespace, k.Name, queue.Abandoned))
	}
	type outcome struct {
		Out, Errors string
		Code        int
		Left        []string
	}
	for _, tt := range []struct {
		args []string
		want outcome
	}{
		{[]string{"dlq", "retry"}, outcome{Errors: "error: nothing to retry is named; give names, or --all. List what there is with: sluice dlq list\n", Code: 1,
			Left: []string{"eu-1/shop/checkout", "eu-1/shop/web", "eu-1/test/web", "us-1/shop/checkout"}}},
		{[]string{"dlq", "retry", "web", "--all"}, outcome{Errors: "error: names and --all do not go together; give one of them\n", Code: 1,
			Left: []string{"eu-1/shop/checkout", "eu-1/shop/web", "eu-1/test/web", "us-1/shop/checkout"}}},
		{[]string{"dlq", "retry", "web", "checkout"}, outcome{Code: 1,
			Errors: "error: there are dead letters about a Rollout checkout in several clusters: eu-1, us-1; choose one with --cluster\n",
			Left:   []string{"eu-1/shop/checkout", "eu-1/shop/web", "eu-1/test/web", "us-1/shop/checkout"}}},
		{[]string{"dlq", "retry", "checkout", "web", "--cluster", "eu-1"}, outcome{
			Out:  "rollout.rollouts.kruise.io/checkout is retried\nrollout.rollouts.kruise.io/web is retried\n",
			Left: []string{"eu-1/test/web", "us-1/shop/checkout"}}},
		{[]string{"dlq", "retry", "web"}, outcome{Code: 1, Left: []string{"eu-1/test/web", "us-1/shop/checkout"},
			Errors: "error: there is no dead letter about Rollout web in namespace shop; list them with: sluice dlq list -A\n"}},
		{[]string{"dlq", "retry", "--all"}, outcome{Out: "rollout.rollouts.kruise.io/checkout is retried\n", Left: []string{"eu-1/test/web"}}},
		{[]string{"dlq", "retry", "--all", "-A"}, outcome{Out: "rollout.rollouts.kruise.io/web is retried\n"}},
		{[]string{"dlq", "retry", "--all", "-A"}, outcome{Errors: "No dead letters: all work gets done.\n"}},
		{[]string{"dlq", "list"}, outcome{Errors: "No dead letters in namespace shop; -A looks in all.\n"}},
		{[]string{"dlq", "list", "-o", "xml"}, outcome{Errors: "error: --output \"xml\": use wide, json, yaml or name\n", Code: 1}},
	} {
		var got outcome
		got.Out, got.Errors, got.Code = a.runs(tt.args...)
		letters, err := a.queue.ListDeadLetters(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range letters {
			got.Left = append(got.Left, l.Key.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strings.Join(tt.args, " "), diff)
		}
	}

	// The retry runs each of them again.
	ran := make(chan queue.Key, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- a.queue.Consume(ctx, queue.ConsumeOptions{Cluster: "*", Workers: 1, Handler: func(_ context.Context, k queue.Key) queue.Result {
			ran <- k
			return queue.Result{}
		}})
	}()
	left := map[queue.Key]bool{}
	for _, k := range keys {
		left[k] = true
	}
	for timeout := time.After(10 * time.Minute); len(left) > 0; {
		select {
		case k := <-ran:
			delete(left, k)
		case <-timeout:
			t.Fatalf("not run: %v", left)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/test/controlplane"
)

// grant gives the service account of docs/approvals.md its right and the pipeline its token, with the commands of the document.
func (p *pipeline) grant() {
	p.Helper()
	p.grantBy("grant")
}

// grantBy runs a block of the document that gives rights.
func (p *pipeline) grantBy(block string) {
	p.Helper()
	binary, err := controlplane.Binary() // kubectl is built in the same directory
	if err != nil {
		p.Fatal(err)
	}
	if out, err := p.shell(blocks(p.T)[block], "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH")); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
}

// shell runs a script in the pipeline's directory.
func (p *pipeline) shell(script string, env ...string) (string, error) {
	p.Helper()
	replace := strings.NewReplacer("https://sluice.example.com", p.url, "nats://nats.example.com:4222", p.nats,
		"NATS_PASSWORD=secret", "NATS_PASSWORD="+trial.Password("ci-shop"), "--password secret", "--password "+trial.Password("ci-shop"))
	if strings.Contains(script, "ci-shop-fleet") {
		replace = strings.NewReplacer("nats://nats.example.com:4222", p.nats, "NATS_PASSWORD=secret", "NATS_PASSWORD="+trial.Password("ci-shop-fleet"))
	}
	c := exec.CommandContext(p.Context(), "bash", "-e", "-o", "pipefail", "-c", replace.Replace(script))
	c.Dir = p.dir
	c.Env = append(append(os.Environ(), "KUBECONFIG="+p.cluster.Kubeconfig), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// blocks returns the code blocks of docs/approvals.md that are marked as tested, by name.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "approvals.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- tested: (\\S+) -->\n```\\w+\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
		list[m[1]] = m[2]
	}
	return list
}

func (p *pipeline) runTheDocument() {
	t := p.T
	all := blocks(t)
	account, user := "system:serviceaccount:shop:ci", "ci-shop"
	for _, c := range []struct{ name, principal string }{
		{"nats", user}, {"receiver", account}, {"file", user}, {"curl-structured", account}, {"curl-binary", account}, {"curl-batched", account},
		{"github", account}, {"nats-structured", user}, {"nats-binary", user},
	} {
		if all[c.name] == "" {
			t.Errorf("the document has no block %s", c.name)
			continue
		}
		script, env := all[c.name], []string{"NATS_URL=" + p.nats, "NATS_USER=ci-shop", "NATS_PASSWORD=" + trial.Password("ci-shop")}
		if c.name == "github" {
			var github []string
			script, github = p.workflow(script)
			env = append(env, github...)
		}
		delete(all, c.name)
		if _, err := exec.LookPath("curl"); err != nil && strings.Contains(script, "curl ") {
			t.Logf("%s is not run, there is no curl here", c.name)
			continue
		}
		p.release()
		out, err := p.shell(script, append(env, p.natsCLI()...)...)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, out)
			continue
		}
		p.sendStubbed()
		p.pausedAt(2)
		if diff := cmp.Diff("1 approve "+c.principal+" e2e green;", p.approvals()); diff != "" {
			t.Errorf("%s: %s\n%s", c.name, diff, out)
		}
	}
	delete(all, "grant")
	for name := range all {
		if !strings.HasPrefix(name, "fleet-") { // TestAPipelineOfAFleet runs those
			t.Errorf("no test runs the block %s of the page", name)
		}
	}
}

// workflow returns the script of a GitHub workflow's only step and its environment, as a runner would.
func (p *pipeline) workflow(text string) (script string, env []string) {
	p.Helper()
	steps, env := p.workflowSteps(text, "approve")
	if len(steps) != 1 {
		p.Fatalf("the workflow has %d steps, want one", len(steps))
	}
	return steps[0], env
}

// workflowSteps returns the scripts of a job of a GitHub workflow, and its environment, as a runner would.
func (p *pipeline) workflowSteps(text, job string) (scripts, env []string) {
	p.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
		p.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil {
		p.Fatal(err)
	}
	values := strings.NewReplacer("${{ vars.SLUICE_SERVER }}", p.url, "${{ secrets.SLUICE_TOKEN }}", strings.TrimSpace(string(token)),
		"${{ github.repository }}", "acme/checkout", "${{ github.run_id }}", "4711", "${{ github.run_attempt }}", "1")
	add := func(list map[string]string) {
		for name, value := range list {
			env = append(env, name+"="+values.Replace(value))
		}
	}
	add(workflow.Jobs[job].Env)
	for _, step := range workflow.Jobs[job].Steps {
		scripts = append(scripts, step.Run)
		add(step.Env)
	}
	// The runner trusts the certificates of its system.
	return scripts, append(env, "CURL_CA_BUNDLE="+filepath.Join(p.dir, "ca.crt"), "SSL_CERT_FILE="+filepath.Join(p.dir, "ca.crt"))
}

// natsCLI selects the nats command line if it is installed, or else a stub that records its arguments.
func (p *pipeline) natsCLI() (env []string) {
	p.Helper()
	if path, err := exec.LookPath("nats"); err == nil {
		p.Logf("the commands are run by %s", path)
		return nil
	}
	bin := filepath.Join(p.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		p.Fatal(err)
	}
	stub := "#!/bin/sh\nprintf '%s\\0' \"$@\" > " + p.stubbed() + "\n"
	if err := os.WriteFile(filepath.Join(bin, "nats"), []byte(stub), 0o700); err != nil {
		p.Fatal(err)
	}
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
}

func (p *pipeline) stubbed() string { return filepath.Join(p.dir, "nats.arguments") }

// sendStubbed sends the message that the nats command line would have sent.
func (p *pipeline) sendStubbed() {
	p.Helper()
	text, err := os.ReadFile(p.stubbed())
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		p.Fatal(err)
	}
	p.Log("there is no nats command line here: its message is sent by a client library")
	if err := os.Remove(p.stubbed()); err != nil {
		p.Fatal(err)
	}
	m, values := nats.NewMsg(""), map[string]string{}
	var words []string
	list := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for i := 0; i < len(list); i++ {
		switch flag := list[i]; {
		case flag == "-H":
			i++
			name, value, _ := strings.Cut(list[i], ":")
			m.Header[name] = []string{value}
		case flag == "--jetstream":
		case strings.HasPrefix(flag, "--"):
			i++
			values[flag] = list[i]
		default:
			words = append(words, flag)
		}
	}
	if len(words) != 3 || words[0] != "publish" {
		p.Fatalf("the words of the command are %q", words)
	}
	nc, err := nats.Connect(values["--server"], nats.UserInfo(values["--user"], values["--password"]), nats.CustomInboxPrefix(values["--inbox-prefix"]))
	if err != nil {
		p.Fatal(err)
	}
	defer nc.Close()
	m.Subject, m.Data = words[1], []byte(words[2])
	ack, err := nc.RequestMsgWithContext(p.Context(), m)
	if err != nil || !bytes.Contains(ack.Data, []byte("SLUICE_APPROVALS")) {
		p.Fatalf("%v: %s", err, ack.Data)
	}
}

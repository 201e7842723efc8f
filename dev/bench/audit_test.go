package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const auditLines = `
{"verb":"get","requestURI":"/a","userAgent":"sluice-executor","user":{"username":"system:serviceaccount:sluice-system:sluice-executor"},"objectRef":{"resource":"rollouts","name":"a"},"responseStatus":{"code":200}}
{"verb":"get","requestURI":"/a","userAgent":"sluice-executor","user":{"username":"system:serviceaccount:sluice-system:sluice-executor"},"objectRef":{"resource":"rollouts","name":"a"},"responseStatus":{"code":404}}
{"verb":"update","requestURI":"/a","userAgent":"sluice-executor","user":{"username":"admin"},"impersonatedUser":{"username":"system:serviceaccount:sluice-system:sluice-executor"},"objectRef":{"resource":"rollouts","subresource":"status","name":"a"},"responseStatus":{"code":409}}
{"verb":"create","requestURI":"/a","userAgent":"sluice-executor","user":{"username":"system:serviceaccount:sluice-system:sluice-executor"},"objectRef":{"resource":"events"},"responseStatus":{"code":201}}
{"verb":"patch","requestURI":"/a","userAgent":"sluice-executor","user":{"username":"system:serviceaccount:sluice-system:sluice-executor"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"verb":"get","requestURI":"/apis/apps/v1?timeout=32s","userAgent":"sluice-watcher","user":{"username":"system:serviceaccount:sluice-system:sluice-watcher"},"responseStatus":{"code":200}}
{"verb":"patch","requestURI":"/a","userAgent":"sluice-bench","user":{"username":"admin"},"objectRef":{"resource":"deployments"},"responseStatus":{"code":200}}
{"verb":"update","requestURI":"/a","userAgent":"kube-controller-manager","user":{"username":"system:serviceaccount:kube-system:deployment-controller"},"objectRef":{"resource":"deployments"},"responseStatus":{"code":200}}
{"verb":"update","requestURI":"/a","userAg`

func TestRequestsAreCountedByWhoAskedForWhat(t *testing.T) {
	t.Parallel()
	got, err := count(bufio.NewReader(strings.NewReader(strings.TrimPrefix(auditLines, "\n"))), []string{"system:serviceaccount:sluice-system:"})
	if err != nil {
		t.Fatal(err)
	}
	got.perRelease(2)
	want := &Traffic{
		Reads: 3, Writes: 1, Events: 1, PodLabels: 1, Refused: map[int]int{404: 1, 409: 1}, Driver: 1, Native: 1,
		Requests: []Requests{
			{Verb: "get", Resource: "rollouts", By: "sluice-executor", Count: 2, PerRelease: 1},
			{Verb: "create", Resource: "events", By: "sluice-executor", Count: 1, PerRelease: 0.5},
			{Verb: "patch", Resource: "pods", By: "sluice-executor", Count: 1, PerRelease: 0.5},
			{Verb: "update", Resource: "rollouts/status", By: "sluice-executor", Count: 1, PerRelease: 0.5},
			{Verb: "get", Resource: "/apis/apps/v1", By: "sluice-watcher", Count: 1, PerRelease: 0.5},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts differ (-want +got):\n%s", diff)
	}
}

func TestWithoutAnAuditLogNothingIsCounted(t *testing.T) {
	t.Parallel()
	got, err := auditLog{}.since(0)
	if got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCountingMayBeginAnywhereInTheLog(t *testing.T) {
	t.Parallel()
	const line = `{"verb":"get","user":{"username":"a"},"objectRef":{"resource":"pods"}}` + "\n"
	log := auditLog{path: filepath.Join(t.TempDir(), "audit.log"), users: []string{"a"}}
	if err := os.WriteFile(log.path, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	n := int64(len(line))
	for offset, want := range map[int64]int{0: 2, 1: 1, n - 1: 1, n: 1, n + 1: 0, 2*n - 1: 0, 2 * n: 0} {
		got, err := log.since(offset)
		if err != nil {
			t.Fatalf("from %d: %v", offset, err)
		}
		if got.Reads != want {
			t.Errorf("from %d: %d requests are counted, want %d", offset, got.Reads, want)
		}
	}
}

package world

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/test/controlplane"
)

func TestAWriteThatChangedNothingComesAfterTheOneItEchoes(t *testing.T) {
	t.Parallel()
	at := func(user string, version, second int64) Write {
		return Write{User: user, Object: &unstructured.Unstructured{}, Version: version, Received: time.Unix(second, 0)}
	}
	got := ordered([]Write{at("alice", 2, 1), at(executorUser, 2, 2), at("bob", 1, 3)})
	for i, want := range []string{"bob", executorUser, "alice"} {
		if got[i].User != want {
			t.Errorf("write %d is by %s, want %s", i, got[i].User, want)
		}
	}
}

func TestReadingMayBeginAnywhereInTheLog(t *testing.T) {
	t.Parallel()
	const line = `{"verb":"delete","objectRef":{"resource":"pods","namespace":"a","name":"x"}}` + "\n"
	w := &World{Cluster: &controlplane.Cluster{AuditLog: filepath.Join(t.TempDir(), "audit.log")}}
	if err := os.WriteFile(w.AuditLog, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	n := int64(len(line))
	for offset, want := range map[int64]int{0: 2, 1: 1, n - 1: 1, n: 1, n + 1: 0, 2 * n: 0} {
		got, err := w.writesSince(offset, "a")
		if err != nil {
			t.Fatalf("from %d: %v", offset, err)
		}
		if len(got) != want {
			t.Errorf("from %d: %d writes, want %d", offset, len(got), want)
		}
	}
}

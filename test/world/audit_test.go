package world

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

package controlplane

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Timeout: request did not complete within requested timeout - context deadline exceeded": true,
		`Post "https://127.0.0.1:1/api": http2: client connection lost`:                          true,
		"stream error: stream ID 947; INTERNAL_ERROR; received from peer":                        true,
		apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web").Error():             false,
		"admission webhook denied the request":                                                   false,
	} {
		if got := Unanswered(errors.New(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if Unanswered(nil) {
		t.Error("success is sent again")
	}
}

func TestACommandThatWasCarriedOutWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	exists := errors.New(`kubectl create namespace a: exit status 1: Error from server (AlreadyExists): namespaces "a" already exists`)
	gone := errors.New(`kubectl delete pod a: exit status 1: Error from server (NotFound): pods "a" not found`)
	for _, c := range []struct {
		command string
		err     error
		want    bool
	}{
		{"create", exists, true}, {"delete", gone, true}, {"get", gone, false}, {"apply", exists, false},
	} {
		if got := carriedOut([]string{"-n", "x", c.command}, c.err); got != c.want {
			t.Errorf("%s: %t", c.command, got)
		}
	}
}

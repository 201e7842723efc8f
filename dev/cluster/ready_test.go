package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhatABusyAPIServerDidNotAnswerIsCreatedAgain(t *testing.T) {
	t.Parallel()
	busy, exists := apierrors.NewTimeoutError("too busy", 1), apierrors.NewAlreadyExists(schema.GroupResource{Resource: "nodes"}, "a")
	lost, wrong := errors.New("http2: client connection lost"), apierrors.NewBadRequest("wrong")
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"created":                             {[]error{nil}, nil},
		"created after a lost connection":     {[]error{lost, busy, nil}, nil},
		"created by what was not answered":    {[]error{busy, exists}, nil},
		"refused, because the object existed": {[]error{exists}, exists},
		"refused, because it is invalid":      {[]error{lost, wrong}, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				err := created(t.Context(), func(context.Context) error { asked++; return c.answers[asked-1] })
				if !errors.Is(err, c.want) || asked != len(c.answers) {
					t.Errorf("after %d requests of %d: %v", asked, len(c.answers), err)
				}
			})
		})
	}
}

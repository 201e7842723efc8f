package kube

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestAServerThatIsBusyIsAskedOnceAndNamesItsWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header string
		want   time.Duration
	}{
		"it says for how long":         {"7", 7 * time.Second},
		"it does not":                  {"", time.Second},
		"it says nothing of use":       {"Fri, 20 Nov 2026 10:00:00 GMT", time.Second},
		"it says to come back at once": {"0", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			client, err := New(&rest.Config{Host: "http://127.0.0.1:1", Transport: answers(func(*http.Request) (*http.Response, error) {
				asked.Add(1)
				return &http.Response{
					StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {test.header}},
					Body: io.NopCloser(strings.NewReader("Too many requests, please try again later.")),
				}, nil
			})}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Observe(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"})
			if got := apiclient.RetryAfter(err); got != test.want || !apierrors.IsTooManyRequests(err) {
				t.Errorf("the wait is %s, want %s, after: %v", got, test.want, err)
			}
			if apiclient.IsConflict(err) || apiclient.IsGone(err) || errors.Is(err, apiclient.ErrStale) {
				t.Errorf("it is taken for something else: %v", err)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

// The API server gives this answer for one kind if it cannot convert the stored objects of that kind.
func TestAKindThatCannotBeServedSlowsNobodyDown(t *testing.T) {
	t.Parallel()
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":1},
		"message":"storage is (re)initializing: failed to list example.com/v1, Kind=Rule: conversion webhook failed"}`
	client, err := New(&rest.Config{Host: "http://127.0.0.1:1", Transport: answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Observe(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"})
	if !apierrors.IsServiceUnavailable(err) || apiclient.RetryAfter(err) != 0 || !strings.Contains(err.Error(), "conversion webhook failed") {
		t.Errorf("it is told as %v, with a wait of %s", err, apiclient.RetryAfter(err))
	}
}

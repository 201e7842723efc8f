package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// The answers come from kube-apiserver 1.30 and 1.36.
func TestWhatAnAPIServerDoesNotServe(t *testing.T) {
	for name, test := range map[string]struct {
		code     int
		answer   string
		unserved bool
	}{
		"a resource of a group of its own": {http.StatusNotFound,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`, true},
		"a group that it does not know": {http.StatusNotFound, "404 page not found\n", true},
		"an object that is not there": {http.StatusNotFound,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"rollouts.rollouts.kruise.io \"x\" not found","reason":"NotFound","details":{"name":"x","group":"rollouts.kruise.io","kind":"rollouts"},"code":404}`, false},
		"a failure": {http.StatusInternalServerError, "out of memory", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.answer[0] == '{' {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.answer))
			}))
			defer server.Close()
			client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Resource(api.RolloutResource()).Namespace("default").Get(t.Context(), "x", metav1.GetOptions{})
			if err == nil || api.Unserved(err) != test.unserved {
				t.Errorf("of %v it is said that the resource is unserved: %t", err, !test.unserved)
			}
		})
	}
}

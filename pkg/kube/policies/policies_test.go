package policies

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// policyServer answers like an API server whose admission policies come and go.
type policyServer struct {
	*Checker
	code atomic.Int32 // of each answer
	// webhook has the webhooks of the installation in their place, "" for none.
	webhook string
	asked   atomic.Int32
	// With slow, the server reports each request on arrived, and answers once slow is closed.
	slow, arrived chan struct{}
}

func newPolicyServer(t *testing.T) *policyServer {
	t.Helper()
	s := &policyServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if s.slow != nil {
			s.arrived <- struct{}{}
			<-s.slow
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "mutatingwebhookconfigurations") && s.webhook != "" {
			_, _ = w.Write([]byte(`{"kind":"MutatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"sluice-hold"},"webhooks":` + s.webhook + `}`))
			return
		}
		w.WriteHeader(int(s.code.Load()))
		if s.code.Load() == http.StatusNotFound {
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"any"},"code":404,"message":"not found"}`))
			return
		}
		kind := "MutatingAdmissionPolicy"
		if strings.Contains(r.URL.Path, "bindings") {
			kind += "Binding"
		}
		_, _ = w.Write([]byte(`{"kind":"` + kind + `","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"any"}}`))
	}))
	t.Cleanup(server.Close)
	client, err := admissionclient.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.Checker = NewChecker(client, "deployment", api.DefaultInstallation())
	return s
}

func TestPoliciesThatWereAbsentAreFoundAsSoonAsTheyAreThere(t *testing.T) {
	t.Parallel()
	s := newPolicyServer(t)
	s.code.Store(http.StatusNotFound)
	if p := s.FindProblem(t.Context()); p == nil || !p.Warning {
		t.Errorf("absent policies are told as %+v", p)
	}
	s.code.Store(http.StatusOK)
	if p := s.FindProblem(t.Context()); p != nil {
		t.Errorf("installed policies are told as %+v", p)
	}
	asked := s.asked.Load()
	if p := s.FindProblem(t.Context()); p != nil || s.asked.Load() != asked {
		t.Errorf("presence is asked for again at once: %+v", p)
	}
}

func TestAnAnswerThatDoesNotComeChangesNothing(t *testing.T) {
	t.Parallel()
	s := newPolicyServer(t)
	s.code.Store(http.StatusNotFound)
	absent := s.FindProblem(t.Context())
	s.code.Store(http.StatusBadRequest)
	if p := s.FindProblem(t.Context()); p != absent {
		t.Errorf("an error is told as %+v", p)
	}
	asked := s.asked.Load()
	if s.FindProblem(t.Context()); s.asked.Load() != asked {
		t.Error("after an error it is asked again at once")
	}
	s.mu.Lock()
	s.validUntil = time.Now()
	s.mu.Unlock()
	s.code.Store(http.StatusOK)
	if p := s.FindProblem(t.Context()); p != nil {
		t.Errorf("after the error installed policies are told as %+v", p)
	}
}

func TestASlowAnswerKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	s := newPolicyServer(t)
	s.code.Store(http.StatusOK)
	s.slow, s.arrived = make(chan struct{}), make(chan struct{}, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.FindProblem(t.Context())
	}()
	<-s.arrived
	if !s.mu.TryLock() {
		t.Error("the lock is held while the API server is asked")
	} else {
		s.mu.Unlock()
	}
	close(s.slow)
	<-done
}

func TestAWebhookHoldsOnceTheServerTrustsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		webhook string
		says    string // "" when nothing is wrong
	}{
		"it is not there":          {"", "not installed"},
		"it has nothing to call":   {`[]`, "has no webhooks"},
		"it is not filled in yet":  {`[{"name":"a","clientConfig":{"caBundle":"QQ=="}},{"name":"b","clientConfig":{}}]`, "has no caBundle"},
		"it is there":              {`[{"name":"a","clientConfig":{"caBundle":"QQ=="}}]`, ""},
		"all of its hooks are set": {`[{"name":"a","clientConfig":{"caBundle":"QQ=="}},{"name":"b","clientConfig":{"caBundle":"QQ=="}}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPolicyServer(t)
			s.code.Store(http.StatusNotFound)
			s.webhook = c.webhook
			p := s.FindProblem(t.Context())
			switch {
			case c.says == "" && p != nil:
				t.Errorf("it is told as %+v", p)
			case c.says != "" && (p == nil || !p.Warning || p.Reason != rollout.ReasonAdmissionPolicyMissing || !strings.Contains(p.Message, c.says)):
				t.Errorf("it is told as %+v, which does not say that it %s", p, c.says)
			}
		})
	}
}

func TestWhichPoliciesHoldAKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ apiVersion, kind, want string }{
		{"apps/v1", "Deployment", "deployment"},
		{"apps/v1", "StatefulSet", "statefulset"},
		{"apps/v1", "DaemonSet", "daemonset"},
		{"apps.kruise.io/v1alpha1", "CloneSet", "cloneset"},
		{"apps.kruise.io/v1beta1", "StatefulSet", "statefulset"},
		{"apps.kruise.io/v1alpha1", "DaemonSet", "statefulset"}, // a partition holds it as well
		{"games.example.com/v1", "Server", "statefulset"},
	} {
		got := FamilyOf(rollout.Ref{APIVersion: c.apiVersion, Kind: c.kind, Name: "web"})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.kind, c.apiVersion, diff)
		}
	}
}

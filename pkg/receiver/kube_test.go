package receiver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/receiver"
	cluster "sluice.dev/sluice/test/world"
)

func TestMain(m *testing.M) {
	code := m.Run()
	cluster.StopShared()
	os.Exit(code)
}

// site is a namespace of a real cluster with a receiver that sends reviews with the identity of the watcher.
type site struct {
	*world
	*cluster.World
	namespace string
}

func aSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	shared := cluster.Shared(t)
	q, err := shared.Connect(t.Context(), "receiver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	gate, err := receiver.NewKubeAccess(shared.As(api.DefaultWatcher), []string{"sluice"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(receiver.New(receiver.Options{ClusterName: shared.Name, AccessControl: gate, Queue: q, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))
	t.Cleanup(server.Close)
	s := &site{&world{T: t, queue: q, url: server.URL}, shared, shared.Namespace(t)}
	s.do("create", "serviceaccount", "ci")
	s.do("create", "serviceaccount", "stranger")
	s.do("create", "rolebinding", "ci", "--clusterrole=sluice-approver", "--serviceaccount="+s.namespace+":ci")
	return s
}

func (s *site) do(args ...string) string {
	s.T.Helper()
	return strings.TrimSpace(s.World.Do(s.T, append([]string{"-n", s.namespace}, args...)...))
}

// token requests a token of a service account from the API server.
func (s *site) token(account string, args ...string) string {
	s.T.Helper()
	return "Bearer " + s.do(append([]string{"create", "token", account}, args...)...)
}

// decision returns an event about the Rollout web of the site.
func (s *site) decision(id string, data map[string]any) string {
	return approval(map[string]any{"id": id, "subject": "namespaces/" + s.namespace + "/rollouts/web", "data": data})
}

const forUs = "--audience=sluice"

func TestOnlyTokensThatTheAPIServerVouchesForOpenTheReceiver(t *testing.T) {
	s := aSite(t)
	s.do("create", "serviceaccount", "gone")
	gone := s.token("gone", forUs)
	s.do("delete", "serviceaccount", "gone")
	good := s.token("ci", forUs)
	for name, c := range map[string]struct {
		token  string
		status int
		want   string
	}{
		"of one who may approve":      {good, 202, "stored"},
		"of one who may not":          {s.token("stranger", forUs), 403, `User \"system:serviceaccount:` + s.namespace + `:stranger\" may not approve Rollout ` + s.namespace + "/web"},
		"for the API server":          {s.token("ci"), 401, "another audience"},
		"for somebody else":           {s.token("ci", "--audience=vault"), 401, "another audience"},
		"of an account that is gone":  {gone, 401, "not valid"},
		"that has expired":            {s.forge(good, func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Minute).Unix() }), 401, "expired"},
		"that was renewed as it was":  {s.forge(good, func(map[string]any) {}), 202, "stored"},
		"with a signature cut short":  {good[:len(good)-4], 401, "not valid"},
		"that is no token":            {"Bearer garbage", 401, "not valid"},
		"that is longer than any":     {"Bearer " + strings.Repeat("x", 20_000), 401, "not valid"},
		"of an administrator's rival": {s.forge(good, func(claims map[string]any) { claims["iss"] = "https://elsewhere" }), 401, "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := s.send(request{contentType: structured, token: c.token, body: s.decision("1", map[string]any{"decision": "approve", "rolloutID": "v1"})})
			if status != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s, want %d with %q", status, body, c.status, c.want)
			}
		})
	}
}

// forge changes the claims of a token and signs it with the API server's own key.
func (s *site) forge(token string, change func(claims map[string]any)) string {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.Kubeconfig), "sa.key"))
	if err != nil {
		s.T.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		s.T.Fatal(err)
	}
	parts := strings.Split(strings.TrimPrefix(token, "Bearer "), ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		s.T.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(body, &claims); err != nil {
		s.T.Fatal(err)
	}
	change(claims)
	if body, err = json.Marshal(claims); err != nil {
		s.T.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(signed))
	r, v, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		s.T.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
	return "Bearer " + signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "registry.example.com/web:v1"}]}}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy: {canary: {enableExtraWorkloadForCanary: true, steps: [{replicas: 1, pause: {}}, {replicas: 2, pause: {}}]}}
`

func TestAnApprovalAtTheReceiverMovesTheReleaseAndTheCallerHearsIt(t *testing.T) {
	s := aSite(t)
	s.Apply(t, s.namespace, web)
	s.Await(t, s.namespace, "web", func(r *api.Rollout) bool {
		return cluster.Healthy(r) && r.Status.CanaryStatus != nil && r.Status.CanaryStatus.StableRevision != ""
	})
	s.Available(t, s.namespace, "web")
	s.do("set", "image", "deployment/web", "c=registry.example.com/web:v2")
	s.Await(t, s.namespace, "web", cluster.PausedAt(1))

	ci := s.token("ci", forUs)
	decide := func(id string, data map[string]any) (int, decided) {
		t.Helper()
		status, _, body := s.send(request{path: "/v1/events?wait=60s", contentType: structured, token: ci, body: s.decision(id, data)})
		var d decided
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return status, d
	}
	if status, d := decide("1", map[string]any{"decision": "approve", "image": "registry.example.com/web:v1"}); status != 409 || d.Refusal != api.RefusalWrongRelease || d.Message == "" {
		t.Errorf("approving the old version: %d %+v", status, d)
	}
	if status, d := decide("early", map[string]any{"decision": "approve", "image": "registry.example.com/web:v2", "step": 2}); status != 409 || d.Refusal != api.RefusalWrongStep {
		t.Errorf("approving step 2 at step 1: %d %+v", status, d)
	}
	approve := map[string]any{"decision": "approve", "image": "registry.example.com/web:v2", "step": 1, "comment": "e2e green"}
	principal := "system:serviceaccount:" + s.namespace + ":ci"
	for _, again := range []string{"first", "again"} {
		if status, d := decide("2", approve); status != 200 || !d.Accepted || d.Step != 1 || d.Principal != principal {
			t.Errorf("%s: approving step 1: %d %+v", again, status, d)
		}
	}
	r := s.Await(t, s.namespace, "web", cluster.PausedAt(2))
	if a := r.Status.Approvals; len(a) != 1 || a[0].Actor != principal || a[0].EventID != "2" || a[0].Source != "/ci" || a[0].Comment != "e2e green" {
		t.Errorf("status.approvals is %+v", a)
	}
	if status, d := decide("3", map[string]any{"decision": "approve", "image": "registry.example.com/web:v2", "step": 1}); status != 409 || d.Refusal != api.RefusalAlreadyDecided {
		t.Errorf("approving step 1 at step 2: %d %+v", status, d)
	}
}

// decided is the body of an answer.
type decided struct {
	Accepted           bool
	Refusal            api.Refusal
	Message, Principal string
	Step               int32
}

// If the receiver may not create reviews, it answers later and not no.
func TestAWatcherWithoutTheRightToAskSaysLater(t *testing.T) {
	s := aSite(t)
	gate, err := receiver.NewKubeAccess(s.As(api.DefaultAnalyzer), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Authenticate(t.Context(), strings.TrimPrefix(s.token("ci"), "Bearer ")); err == nil || err == receiver.ErrUnauthenticated {
		t.Errorf("whose token it is: %v", err)
	}
	if _, err := gate.Authorize(context.WithoutCancel(t.Context()), receiver.Caller{}, receiver.Permission{Verb: "approve", Resource: api.RolloutResource(), Namespace: s.namespace, Name: "web"}); err == nil {
		t.Error("it can tell what a caller may do")
	}
}

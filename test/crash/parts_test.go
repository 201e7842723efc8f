package crash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/world"
)

func TestPlansReadBack(t *testing.T) {
	t.Parallel()
	acts := []act{{"PUT rollouts/app/status", 4}, {"PUT virtualservices/app (dry run)", 1}, {toNATS + "ack", 12}, {hinting, 2}, {"watcher" + watches + "deployments", 3}}
	for _, p := range plans(acts) {
		got, err := parsePlan(p.String())
		if err != nil || got != p {
			t.Errorf("%s is read as %v, %v", p, got, err)
		}
	}
	if n := len(plans(acts)); n != 7+7+3+2+3 {
		t.Errorf("there are %d plans", n)
	}
	for _, s := range []string{"", "PUT x", "PUT x#1", "PUT x#one:409", "PUT x#1:drop", "NATS ack#1:409"} {
		if p, err := parsePlan(s); err == nil {
			t.Errorf("%q is taken for %v", s, p)
		}
	}
}

func TestAKindOfActThatNoReleaseHasIsMissed(t *testing.T) {
	t.Parallel()
	v := variant{world.Daemons, canceled}
	var acts []act
	for _, kind := range v.always() {
		if kind != "DELETE pods" {
			acts = append(acts, act{kind, 1})
		}
	}
	if diff := cmp.Diff([]string{"DELETE pods"}, missing(v.always(), acts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The tests play only kinds of acts that a release has. So a family that is no longer played must fail a test, too.
func TestEachFamilyOfReleasesIsPlayed(t *testing.T) {
	t.Parallel()
	for family, test := range map[string]struct {
		of    func(variant) bool
		least int
	}{
		"rolled back":                {func(v variant) bool { return v.end == canceled }, 7},
		"newer version":              {func(v variant) bool { return v.end == continued }, 3},
		"deleted":                    {func(v variant) bool { return v.end == removed }, 5},
		"disabled":                   {func(v variant) bool { return v.end == disabled }, 2},
		"measured":                   {variant.measured, 2},
		"canary style":               {func(v variant) bool { return v.style == beside }, 7},
		"partition style":            {func(v variant) bool { return v.style == world.InPlace }, 5},
		"blue-green style":           {variant.blueGreen, 3},
		"DaemonSets":                 {func(v variant) bool { return v.style == world.Daemons }, 4},
		"canary Ingresses":           {func(v variant) bool { return v.style == world.Ingressed }, 3},
		"copies of policies":         {func(v variant) bool { return v.style == world.Attached }, 3},
		"the strategy Recreate":      {func(v variant) bool { return v.style == world.Recreated }, 1},
		"StatefulSets and CloneSets": {func(v variant) bool { return v.own() && v.style != world.Daemons }, 2},
	} {
		played := 0
		for _, v := range variants() {
			if test.of(v) {
				played++
			}
		}
		if played < test.least {
			t.Errorf("%s: %d releases are played, where there are to be %d", family, played, test.least)
		}
	}
}

func TestAPlanIsMadeForARunThatDoesLess(t *testing.T) {
	t.Parallel()
	const status = "PUT rollouts/app/status"
	acts := []act{{status, 1}, {toNATS + "ack", 1}, {status, 2}}
	for sentence, test := range map[string]struct{ of, want plan }{
		"the run has the act":                {plan{act{status, 2}, conflict}, plan{act{status, 2}, conflict}},
		"the run has fewer acts of a kind":   {plan{act{status, 12}, conflict}, plan{act{status, 2}, conflict}},
		"the run has no act of a kind":       {plan{act{"DELETE services/app-canary", 3}, lost}, plan{act{"DELETE services/app-canary", 3}, lost}},
		"an undisturbed run stays just that": {plan{}, plan{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := test.of.within(acts); got != test.want {
				t.Errorf("the plan is %s, want %s", got, test.want)
			}
		})
	}
}

func TestASampleHasAllWays(t *testing.T) {
	t.Parallel()
	var acts []act
	for n := range 100 {
		acts = append(acts, act{"PUT rollouts/app/status", n + 1}, act{toNATS + "ack", n + 1}, act{"watcher" + watches + "pods", n + 1})
	}
	list := sample(plans(acts), 50)
	ways := map[way]int{}
	var of []act
	for _, p := range list {
		of = append(of, p.act)
		ways[p.way]++
	}
	if got, want := sorts(of), "25 writes, 13 words to NATS, 12 frames of watches"; got != want {
		t.Errorf("of 50 plans there are %s, want %s", got, want)
	}
	for _, w := range []way{before, after, lost, conflict, busy, broken, late, dropped, delayed, cut} {
		if ways[w] < 2 {
			t.Errorf("of 50 plans %d go wrong by %s", ways[w], w)
		}
	}
}

func TestWhatIsPublishedIsNamed(t *testing.T) {
	t.Parallel()
	const text = "CONNECT {}\r\nPING\r\n" +
		"PUB $JS.ACK.SLUICE_WORK.c.1.2.3.4.5 4\r\n+ACK\r\n" +
		"PUB $JS.ACK.SLUICE_WORK.c.1.2.3.4.5 0\r\n\r\n" +
		"PUB $JS.ACK.SLUICE_WORK.c.1.2.3.4.5 4\r\n+WPI\r\n" +
		"PUB $JS.ACK.SLUICE_WORK.c.1.2.3.4.5 21\r\n-NAK {\"delay\": 15000}\r\n" +
		"HPUB $KV.sluice_lease.a.b.c _INBOX.1 12 14\r\nNATS/1.0\r\n\r\nme\r\n" +
		"HPUB $KV.sluice_lease.a.b.c _INBOX.1 31 31\r\nNATS/1.0\r\nKV-Operation: DEL\r\n\r\n\r\n" +
		"HPUB sluice.event.a.b.c _INBOX.1 12 14\r\nNATS/1.0\r\n\r\n{}\r\n" +
		"PUB sluice.timer.a.b.c _INBOX.1 0\r\n\r\n" +
		"PUB sluice.idle.a 2\r\nme\r\n" +
		"PUB $JS.API.STREAM.INFO.SLUICE_WORK _INBOX.1 0\r\n\r\n"
	var all strings.Builder
	var got []string
	for from := bufio.NewReader(strings.NewReader(text)); ; {
		message, kind, err := read(from, published)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Write(message)
		got = append(got, kind)
	}
	want := []string{"", "", "NATS ack", "NATS ack", "", "NATS nak", "NATS take lease", "NATS release lease", "NATS publish event", "NATS publish timer", "", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(text, all.String()); diff != "" {
		t.Errorf("what is passed on (-want +got):\n%s", diff)
	}
}

func TestFramesOfBothKindsGoWrongAsPlanned(t *testing.T) {
	t.Parallel()
	binaryFrame := func(s string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s }
	for name, c := range map[string]struct {
		contentType  string
		frames, want []string
		way          way
	}{
		"a frame in JSON is lost":        {"application/json", []string{"{1}\n", "{2}\n", "{3}\n"}, []string{"{1}\n", "{3}\n"}, dropped},
		"a frame in JSON is late":        {"application/json", []string{"{1}\n", "{2}\n", "{3}\n"}, []string{"{1}\n", "{2}\n", "{3}\n"}, delayed},
		"a watch in JSON ends":           {"application/json", []string{"{1}\n", "{2}\n", "{3}\n"}, []string{"{1}\n"}, cut},
		"a frame in protobuf is lost":    {"application/vnd.kubernetes.protobuf;stream=watch", []string{binaryFrame("a\n"), binaryFrame("b"), binaryFrame("c")}, []string{binaryFrame("a\n"), binaryFrame("c")}, dropped},
		"a watch in protobuf ends early": {"application/vnd.kubernetes.protobuf;stream=watch", []string{binaryFrame("a"), binaryFrame("b")}, []string{binaryFrame("a")}, cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(plan{act{"watcher" + watches + "pods", 2}, c.way})
			j.begin()
			request := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/n/pods?watch=true", nil)
			response := framed(j, "watcher", request, &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.contentType}}, Body: io.NopCloser(strings.NewReader(strings.Join(c.frames, ""))),
			})
			got, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Join(c.want, ""), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWatchOfAllNamespacesIsNarrowed(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/apis/apps/v1/deployments":                            "/apis/apps/v1/namespaces/n/deployments",
		"/api/v1/services":                                     "/api/v1/namespaces/n/services",
		"/api/v1/namespaces/kruise-rollout/configmaps":         "/api/v1/namespaces/kruise-rollout/configmaps",
		"/apis/apps/v1/namespaces/n/deployments/app":           "/apis/apps/v1/namespaces/n/deployments/app",
		"/apis/admissionregistration.k8s.io/v1/somethingthere": "/apis/admissionregistration.k8s.io/v1/somethingthere",
	} {
		if got := scoped(httptest.NewRequest(http.MethodGet, path, nil), "n", "virtualservices").URL.Path; got != want {
			t.Errorf("%s is narrowed to %s, want %s", path, got, want)
		}
	}
}

// A write that is retried because it met another one is not an additional act. A run without such meetings has as many
// acts.
func TestAWriteThatIsMadeAgainIsNoActMore(t *testing.T) {
	j := newJournal(plan{})
	for _, kind := range []string{"PATCH deployments/app", "PATCH deployments/app", "PUT rollouts/app/status", "PATCH deployments/app"} {
		j.note(kind)
	}
	j.meets("PATCH deployments/app")
	want := []act{{"PATCH deployments/app", 1}, {"PATCH deployments/app", 2}, {"PUT rollouts/app/status", 1}}
	if got := j.all(); !slices.Equal(got, want) {
		t.Errorf("the acts are %v, not %v", got, want)
	}
}

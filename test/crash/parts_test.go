package crash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestTooFewPlansOfAllReleasesAreTold(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		tally tally
		want  string
	}{
		"all releases with enough plans":  {tally{15, 2000}, ""},
		"some releases":                   {tally{14, 1999}, ""},
		"all releases with too few plans": {tally{15, 1999}, "15 releases have 1999 plans together, where there are to be 2000 at least"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.tally.tooFew()); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
			}
		})
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
	want := []string{"", "", "NATS ack", "NATS ack", "", "NATS nak", "NATS take lease", "NATS release lease", "NATS publish event", "NATS publish timer", ""}
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
		if got := scoped(httptest.NewRequest(http.MethodGet, path, nil), "n").URL.Path; got != want {
			t.Errorf("%s is narrowed to %s, want %s", path, got, want)
		}
	}
}

package queue

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// readDocs returns docs/queue.md, which describes this package for operators.
func readDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/queue.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestTheDocsNameEveryMetricOfTheQueue(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, TaskRelease)
	m.observeRun(nil, 0) // the metric exists after the first run
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		want = append(want, f.GetName())
	}
	got := regexp.MustCompile(`sluice_queue_[a-z_]+`).FindAllString(readDocs(t), -1)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("metrics in the docs (-want +got):\n%s", diff)
	}
}

func TestTheDocsSayWhatTheQueueDoes(t *testing.T) {
	t.Parallel()
	docs := readDocs(t)
	for _, want := range []string{
		"`" + StreamWork + "`", "`" + StreamEvents + "`", "`" + StreamApprovals + "`", "`" + StreamDead + "`", "`" + BucketLease + "`", "`" + BucketAnalysis + "`",
		"`" + workPrefix + "<cluster>.", "`" + timerPrefix, "`" + measurePrefix, "`" + tickPrefix, "`" + eventPrefix, "`" + deadPrefix, "`" + approvalPrefix, "`" + idlePrefix + "<cluster>`",
		fmt.Sprintf("%.0f s after the last renewal", leaseTTL.Seconds()),
		fmt.Sprintf("could not renew its lease for %.0f s", (leaseTTL - leaseMargin).Seconds()),
		fmt.Sprintf("%.0f days after the last write", sumsTTL.Hours()/24),
		fmt.Sprintf("%d MiB at most", maxMessage>>20),
		fmt.Sprintf("%.0f days, the newest %d of a Rollout", keepEvents.Hours()/24, keepLetters),
		fmt.Sprintf("at most one every %d ms", hintEvery.Milliseconds()),
		fmt.Sprintf("holds up to %d hints", depth),
		fmt.Sprintf("leaves its hints to the others after %.0f s", ackWait.Seconds()),
		fmt.Sprintf("finishes what runs (%.0f s at most)", stopGrace.Seconds()),
		fmt.Sprintf("Every %.0f s, an executor with free workers", inProgressEvery.Seconds()),
		fmt.Sprintf("retried after %.1f s, then after twice as long each time, up to a minute", backoffFirst.Seconds()),
		fmt.Sprintf("as long as the API server asks (%.0f s at most)", retryAfterMax.Seconds()),
		fmt.Sprintf("%d runs in a row have failed", deadLetterEvery),
		fmt.Sprintf("delivered %d times", maxDeliver),
	} {
		if !strings.Contains(docs, want) {
			t.Errorf("docs/queue.md does not say %q", want)
		}
	}
}

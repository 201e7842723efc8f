package executor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

func TestTheNoteOfADeadLetterSaysWhatToDoAndStaysTheSame(t *testing.T) {
	t.Parallel()
	for reason, want := range map[queue.Reason]string{
		queue.Failing:   "Work on this Rollout fails again and again, and is tried on about once a minute. Find out more with: sluice dlq show web -n shop. The last error: boom",
		queue.Abandoned: "Work on this Rollout is left alone until it changes: boom, with: sluice dlq retry web -n shop",
	} {
		for n := range 2 {
			l := queue.DeadLetter{Key: queue.Key{Namespace: "shop", Name: "web"}, Reason: reason, Error: "boom", Attempts: uint64(10 * n), Time: time.Unix(int64(n), 0)}
			if diff := cmp.Diff(want, deadLetterNote(l)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", reason, diff)
			}
		}
	}
}

package executor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/queue"
)

// recordDeadLetter tells on the Rollout itself of a dead letter about it: who looks there does not look into NATS.
func (e *Executor) recordDeadLetter(l queue.DeadLetter) {
	if l.Key.Task == queue.TaskRouting {
		return // there may be a Rollout of that name, which has nothing to do with it
	}
	e.Kube.RecordOnKey(types.NamespacedName{Namespace: l.Key.Namespace, Name: l.Key.Name}, true, "DeadLetter", deadLetterNote(l))
}

// deadLetterNote leaves to the letter how often and since when the work fails, so that the same trouble is the same Event.
func deadLetterNote(l queue.DeadLetter) string {
	at := l.Key.Name + " -n " + l.Key.Namespace
	if l.Reason == queue.Abandoned {
		return fmt.Sprintf("Work on this Rollout is left alone until it changes: %s, with: sluice dlq retry %s", l.Error, at)
	}
	return fmt.Sprintf("Work on this Rollout fails again and again, and is tried on about once a minute. Find out more with: sluice dlq show %s. The last error: %s", at, l.Error)
}

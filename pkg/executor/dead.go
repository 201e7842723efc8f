package executor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/queue"
)

// recordDeadLetter records a Kubernetes Event on the Rollout of a dead letter, because a user who reads the Rollout does not read NATS.
func (e *Executor) recordDeadLetter(l queue.DeadLetter) {
	if l.Key.Task == queue.TaskRouting {
		return // a Rollout of the same name has nothing to do with the TrafficRouting
	}
	e.Kube.RecordOnKey(types.NamespacedName{Namespace: l.Key.Namespace, Name: l.Key.Name}, true, "DeadLetter", deadLetterNote(l))
}

// deadLetterNote omits the number and the time of the attempts, so that one problem stays one Event. The dead letter has both.
func deadLetterNote(l queue.DeadLetter) string {
	at := l.Key.Name + " -n " + l.Key.Namespace
	if l.Reason == queue.Abandoned {
		return fmt.Sprintf("Work on this Rollout is left alone until it changes: %s, with: sluice dlq retry %s", l.Error, at)
	}
	return fmt.Sprintf("Work on this Rollout fails again and again, and is tried on about once a minute. Find out more with: sluice dlq show %s. The last error: %s", at, l.Error)
}

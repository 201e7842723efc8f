package preflight

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// Names of OpenKruise Rollouts' own objects.
const (
	rivalMutating   = "kruise-rollout-mutating-webhook-configuration"
	rivalValidating = "kruise-rollout-validating-webhook-configuration"
)

// skew is how far the clocks of this machine and of a lease's holder may be apart.
const skew = 15 * time.Second

// Rivals looks for OpenKruise's own controller. Two controllers on the same Rollouts undo each other's work, so that this is
// an error: its webhooks act on every change even while its controller is down, and a lease that is being renewed means that
// the controller runs.
func (c *Cluster) Rivals(ctx context.Context) []Finding {
	admission := c.client.AdmissionregistrationV1()
	_, mutating := admission.MutatingWebhookConfigurations().Get(ctx, rivalMutating, metav1.GetOptions{})
	_, validating := admission.ValidatingWebhookConfigurations().Get(ctx, rivalValidating, metav1.GetOptions{})
	var findings []Finding
	for _, w := range []struct {
		kind, name string
		err        error
	}{
		{"MutatingWebhookConfiguration", rivalMutating, mutating},
		{"ValidatingWebhookConfiguration", rivalValidating, validating},
	} {
		if f, found := webhook(w.kind, w.name, w.err); found {
			findings = append(findings, f)
		}
	}
	if f, found := c.lease(ctx); found {
		findings = append(findings, f)
	}
	if len(findings) == 0 {
		return []Finding{{Check: "rivals", Level: LevelOK, Message: "No other controller of Rollouts was found."}}
	}
	return findings
}

func webhook(kind, name string, err error) (f Finding, found bool) {
	switch {
	case apierrors.IsNotFound(err):
		return f, false
	case err != nil:
		return unread("rivals", kind+" "+name, err), true
	}
	return Finding{
		Check: "rivals", Level: LevelError,
		Message: fmt.Sprintf("OpenKruise Rollouts is installed: %s %s exists. Two controllers on the same Rollouts undo each other's work.", kind, name),
		Remedy: fmt.Sprintf("Let no release be under way, stop OpenKruise Rollouts (kubectl scale deployment -n %s --all --replicas=0), and remove its webhooks: kubectl delete %s %s",
			api.ScriptNamespace, kind, name),
	}, true
}

func (c *Cluster) lease(ctx context.Context) (f Finding, found bool) {
	leases, err := c.client.CoordinationV1().Leases(api.ScriptNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return unread("rivals", "The leases in namespace "+api.ScriptNamespace, err), true
	}
	for _, l := range leases.Items {
		if live(&l, c.now()) {
			return Finding{
				Check: "rivals", Level: LevelError,
				Message: fmt.Sprintf("OpenKruise Rollouts is running: %s renews Lease %s/%s. Two controllers on the same Rollouts undo each other's work.",
					*l.Spec.HolderIdentity, l.Namespace, l.Name),
				Remedy: fmt.Sprintf("Stop it: kubectl scale deployment -n %s --all --replicas=0", l.Namespace),
			}, true
		}
	}
	return f, false
}

// live reports whether somebody holds the lease and has renewed it within its own time.
func live(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return false
	}
	duration := skew
	if s.LeaseDurationSeconds != nil {
		duration += time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return now.Sub(s.RenewTime.Time) < duration
}

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	rivalDeployment = "kruise-rollout-controller-manager"
	rivalLease      = "71ddec2c.kruise.io"
)

// clockSkew is how far the clocks of this machine and of a lease's holder may be apart.
const clockSkew = 15 * time.Second

// CheckRivals looks for OpenKruise's own controller. Two controllers on the same Rollouts undo each other's work, so that this is
// an error: its webhooks act on every change even while its controller is down, and a lease that is being renewed means that
// the controller runs.
func (c *Cluster) CheckRivals(ctx context.Context) []Finding {
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
		if f, found := c.rivalWebhookFinding(w.kind, w.name, w.err); found {
			findings = append(findings, f)
		}
	}
	if f, found := c.checkRivalLease(ctx); found {
		findings = append(findings, f)
	}
	findings = append(findings, c.checkRivalDeployments(ctx)...)
	if len(findings) == 0 {
		return []Finding{{Check: "rivals", Level: LevelOK, Message: "No other controller of Rollouts was found."}}
	}
	return findings
}

func (c *Cluster) rivalWebhookFinding(kind, name string, err error) (f Finding, found bool) {
	switch {
	case apierrors.IsNotFound(err):
		return f, false
	case err != nil:
		return c.unreadFinding("rivals", kind+" "+name, err), true
	}
	return Finding{
		Check: "rivals", Level: LevelError,
		Message: fmt.Sprintf("OpenKruise Rollouts is installed: %s %s exists. Two controllers on the same Rollouts undo each other's work.", kind, name),
		Remedy: fmt.Sprintf("Let no release be under way, stop OpenKruise Rollouts (kubectl scale deployment -n %s --all --replicas=0), and remove its webhooks: kubectl delete %s %s",
			api.ScriptNamespace, kind, name),
	}, true
}

func (c *Cluster) checkRivalLease(ctx context.Context) (f Finding, found bool) {
	l, err := c.client.CoordinationV1().Leases(api.ScriptNamespace).Get(ctx, rivalLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return f, false
	case err != nil:
		return c.unreadFinding("rivals", fmt.Sprintf("Lease %s/%s", api.ScriptNamespace, rivalLease), err), true
	case !isLive(l, c.now()):
		return f, false
	}
	return Finding{
		Check: "rivals", Level: LevelError,
		Message: fmt.Sprintf("OpenKruise Rollouts is running: %s renews Lease %s/%s. Two controllers on the same Rollouts undo each other's work.",
			*l.Spec.HolderIdentity, l.Namespace, l.Name),
		Remedy: fmt.Sprintf("Stop it: kubectl scale deployment -n %s --all --replicas=0", l.Namespace),
	}, true
}

// checkRivalDeployments looks for OpenKruise's controller by the name that its manifests and its chart give it, in any namespace.
func (c *Cluster) checkRivalDeployments(ctx context.Context) []Finding {
	list, err := c.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + rivalDeployment})
	if err != nil {
		return []Finding{c.unreadFinding("rivals", "Deployment "+rivalDeployment, err)}
	}
	var findings []Finding
	for _, d := range list.Items {
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.Replicas == 0 {
			continue
		}
		findings = append(findings, Finding{
			Check: "rivals", Level: LevelError,
			Message: fmt.Sprintf("OpenKruise Rollouts is running: Deployment %s/%s is not scaled to 0. Two controllers on the same Rollouts undo each other's work.",
				d.Namespace, d.Name),
			Remedy: fmt.Sprintf("Stop it: kubectl scale deployment -n %s %s --replicas=0", d.Namespace, d.Name),
		})
	}
	return findings
}

// recentWrites is how long ago a write of a status counts as one of a controller that still runs.
const recentWrites = 10 * time.Minute

// CheckStatusWriters looks for other controllers of the same API by their effect: another client has lately set the phase of a Rollout, which no
// user does. It lists all Rollouts, which an executor may not.
func (c *Cluster) CheckStatusWriters(ctx context.Context) []Finding {
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/apis", api.Group, api.V1beta1, "rollouts").
		SetHeader("Accept", metadataOnly).Do(ctx).Raw()
	if err != nil {
		return []Finding{c.unreadFinding("rivals", "Writers of the status of Rollouts", err)}
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil {
		return []Finding{c.unreadFinding("rivals", "Writers of the status of Rollouts", err)}
	}
	seen := map[string]string{}
	for _, r := range list.Items {
		for _, f := range r.ManagedFields {
			if f.Manager != api.FieldManager && f.Time != nil && c.now().Sub(f.Time.Time) < recentWrites && setsPhase(f) {
				seen[f.Manager] = r.Namespace + "/" + r.Name
			}
		}
	}
	var findings []Finding
	for _, manager := range slices.Sorted(maps.Keys(seen)) {
		findings = append(findings, Finding{
			Check: "rivals", Level: LevelWarning,
			Message: fmt.Sprintf("%s has set the phase of Rollout %s within the last %d minutes; two controllers on the same Rollouts undo each other's work.",
				manager, seen[manager], int(recentWrites.Minutes())),
			Remedy: "Find and stop the controller that writes as this field manager: kubectl get rollouts -A --show-managed-fields -o yaml.",
		})
	}
	return findings
}

func setsPhase(f metav1.ManagedFieldsEntry) bool {
	var fields struct {
		Status struct {
			Phase *json.RawMessage `json:"f:phase"`
		} `json:"f:status"`
	}
	return f.Subresource == "status" && f.FieldsV1 != nil && json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) == nil && fields.Status.Phase != nil
}

// isLive reports whether a process holds the lease and has renewed it within its own time.
func isLive(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return false
	}
	duration := clockSkew
	if s.LeaseDurationSeconds != nil {
		duration += time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return now.Sub(s.RenewTime.Time) < duration
}

package preflight

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/hold"
)

// webhookFinding is a finding about the webhook, if the cluster needs or has it; hold and guard are the findings about the policies. ok is false if
// the findings about the policies suffice.
func (c *Cluster) webhookFinding(ctx context.Context, unserved bool) (f Finding, ok bool) {
	f = Finding{Check: "policies", Level: LevelWarning}
	live, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, hold.WebhookName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && unserved:
		f.Message = "This server does not serve MutatingAdmissionPolicy v1, and the webhook that does the same is not there, " +
			"so a new version rolls out until an executor sees it."
		f.Remedy = fmt.Sprintf("Install the webhook: %s, and %s.", c.installation.InstallCommand("webhook"), hold.ServeWebhook)
		return f, true
	case apierrors.IsNotFound(err):
		return f, false
	case err != nil:
		return c.unreadFinding(f.Check, "MutatingWebhookConfiguration "+hold.WebhookName, err), unserved
	}
	if f.Message, f.Remedy = hold.WebhookFault(live, c.installation); f.Message == "" {
		f.Level = LevelOK
		f.Message = fmt.Sprintf("MutatingWebhookConfiguration %s is there and does what the policies would.", hold.WebhookName)
	}
	return f, true
}

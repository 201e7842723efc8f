package hold

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/sluice/pkg/api"
)

// WebhookName is the name of the MutatingWebhookConfiguration. API servers that do not serve mutating policies use it to ask for this decision.
const WebhookName = "sluice-hold"

// ServeWebhook is how the watchers come to serve the webhook.
const ServeWebhook = "start the watchers with --webhook-addr=:9443"

// WebhookFault is why nothing is held by a configuration of an installation, and what to do about it; both are "" when the API server can call all its webhooks.
func WebhookFault(live *admissionregistrationv1.MutatingWebhookConfiguration, in api.Installation) (why, remedy string) {
	untrusted := func(w admissionregistrationv1.MutatingWebhook) bool {
		ignored := w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore // it holds no workload
		return !ignored && len(w.ClientConfig.CABundle) == 0
	}
	switch {
	case len(live.Webhooks) == 0:
		why, remedy = "has no webhooks, so it holds nothing", "Apply it again: "+in.InstallCommand("webhook")
	case slices.ContainsFunc(live.Webhooks, untrusted):
		why, remedy = "has no caBundle, so it holds nothing, and every write on an adopted workload is refused", "Let the watchers fill it in: "+ServeWebhook
	default:
		return "", ""
	}
	return fmt.Sprintf("MutatingWebhookConfiguration %s %s.", WebhookName, why), fmt.Sprintf("%s. Or delete it: kubectl delete mutatingwebhookconfiguration %s.", remedy, WebhookName)
}

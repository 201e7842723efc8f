package hold

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// WebhookName is the MutatingWebhookConfiguration by which API servers that serve no such policies ask for this decision.
const WebhookName = "sluice-hold"

// Holds reports whether the API server can call every webhook of a configuration, and there is one: by one whose certificate it cannot
// verify nothing is held.
func Holds(live *admissionregistrationv1.MutatingWebhookConfiguration) bool {
	return len(live.Webhooks) > 0 && !slices.ContainsFunc(live.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return len(w.ClientConfig.CABundle) == 0
	})
}

// Package options has the one constant that other modules use.
package options

// CloudControllerManagerWebhookPort is the port of the webhook of the cloud controller manager.
const CloudControllerManagerWebhookPort = 10260

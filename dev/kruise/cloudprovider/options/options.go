// Package options has the port of a program that nobody runs.
package options

// CloudControllerManagerWebhookPort is the port of the webhook of the cloud controller manager.
const CloudControllerManagerWebhookPort = 10260

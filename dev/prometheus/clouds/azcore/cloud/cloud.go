// Package cloud names the clouds of Azure.
package cloud

// Configuration has no address.
type Configuration struct{}

// The clouds of Azure.
var AzureChina, AzureGovernment, AzurePublic Configuration

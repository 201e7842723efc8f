// Package types has the fields of a managed machine that Traefik reads.
package types

// InstanceInformation is what is known of a machine.
type InstanceInformation struct{ InstanceId, IPAddress *string }

// InstanceInformationStringFilter chooses machines.
type InstanceInformationStringFilter struct {
	Key    *string
	Values []string
}

// Package types has the fields of a managed machine that Traefik reads.
package types

// InstanceInformation describes a machine.
type InstanceInformation struct{ InstanceId, IPAddress *string }

// InstanceInformationStringFilter selects machines.
type InstanceInformationStringFilter struct {
	Key    *string
	Values []string
}

// Package types has the fields of an instance that Traefik reads.
package types

// Reservation has the instances of one request.
type Reservation struct{ Instances []Instance }

// Instance is a machine.
type Instance struct {
	InstanceId, PrivateIpAddress *string
	State                        *InstanceState
}

// InstanceState is the state of a machine.
type InstanceState struct{ Name InstanceStateName }

// InstanceStateName is its name.
type InstanceStateName string

// InstanceStateNameRunning is the state name of a running machine.
const InstanceStateNameRunning InstanceStateName = "running"

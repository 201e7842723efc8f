package main

import (
	"cmp"
	"strconv"

	"sluice.dev/sluice/pkg/api"
)

// view has the fields of a Rollout or a Deployment that the bench needs. Every controller of the API writes them.
type view struct {
	Metadata struct {
		Namespace, Name, UID, ResourceVersion string
		Annotations                           map[string]string
	}
	Status struct {
		Phase   api.Phase
		Message string
		// The style of the release determines which of them is set.
		CanaryStatus, BlueGreenStatus *stepView
		AvailableReplicas             int32
		fleetView
	}
}

// fleetView has the fields of a FleetRollout, and what a Rollout remembers of its fleet.
type fleetView struct {
	Reason          string
	Epoch, PauseSeq int64
	Release         *struct{ Version string }
	Fleet           *struct{ Releasing struct{ Version string } }
}

type stepView struct {
	CurrentStepIndex int32
	CurrentStepState api.StepState
}

func (v view) key() string { return v.Metadata.Namespace + "/" + v.Metadata.Name }

func (v view) version() uint64 {
	n, _ := strconv.ParseUint(v.Metadata.ResourceVersion, 10, 64)
	return n
}

// pausedAt returns the step at which a release waits for approval, 0 when it does not wait.
func (v view) pausedAt() int32 {
	if c := cmp.Or(v.Status.CanaryStatus, v.Status.BlueGreenStatus); v.Status.Phase == api.PhaseProgressing && c != nil && c.CurrentStepState == api.StepPaused {
		return c.CurrentStepIndex
	}
	return 0
}

package main

import (
	"cmp"
	"strconv"

	"sluice.dev/sluice/pkg/api"
)

// view is what the bench needs to know of a Rollout or a Deployment. Every controller of the API writes it.
type view struct {
	Metadata struct{ Namespace, Name, UID, ResourceVersion string }
	Status   struct {
		Phase   api.Phase
		Message string
		// One of them, by the style of the release.
		CanaryStatus, BlueGreenStatus *stepView
		AvailableReplicas             int32
	}
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

// pausedAt is the step at which a release waits for approval, 0 when it does not wait.
func (v view) pausedAt() int32 {
	if c := cmp.Or(v.Status.CanaryStatus, v.Status.BlueGreenStatus); v.Status.Phase == api.PhaseProgressing && c != nil && c.CurrentStepState == api.StepPaused {
		return c.CurrentStepIndex
	}
	return 0
}

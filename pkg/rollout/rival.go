package rollout

import (
	"cmp"

	"sluice.dev/sluice/pkg/api"
)

// WorkloadKey identifies the workload that a Rollout names, regardless of the version of its API: "" if the Rollout names none.
func WorkloadKey(r *api.Rollout) string {
	ref, _, err := workloadRef(r)
	if err != nil {
		return ""
	}
	return r.Namespace + "/" + ref.Group() + "/" + ref.Kind + "/" + ref.Name
}

// RivalOf returns the Rollout among others that governs the workload of r in place of r; nil if r governs the workload. The oldest Rollout that names a
// workload governs it, also while it is disabled or being deleted; of two of the same age, the first by name. A Rollout without a UID, which the API
// server has not created yet, is younger than all others. OpenKruise refuses to create a second Rollout for a workload.
func RivalOf(r *api.Rollout, others []*api.Rollout) *api.Rollout {
	key := WorkloadKey(r)
	var first *api.Rollout
	for _, other := range others {
		if other.UID == r.UID || other.Name == r.Name || key == "" || WorkloadKey(other) != key {
			continue
		}
		if first == nil || compareAge(other, first) < 0 {
			first = other
		}
	}
	if first == nil || r.UID != "" && compareAge(r, first) < 0 {
		return nil
	}
	return first
}

func compareAge(a, b *api.Rollout) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// RivalMessage is OpenKruise's message, which clients look for. It tells the owner of a Rollout that another one governs its workload.
func RivalMessage(rival string) string {
	return "This rollout conflict with Rollout(" + rival + "), one workload only have less than one Rollout"
}

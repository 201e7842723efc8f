package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"sluice.dev/sluice/pkg/api"
)

// Limits and times of the hub.
const (
	// MaxGrant is the number of clusters of one grant.
	MaxGrant = 500
	// UnreachableAfter is how long a member may be silent. Members send a heartbeat every 10 s.
	UnreachableAfter = 30 * time.Second
	// startupWait is how long an executor waits after its start until it has heard every member.
	startupWait = 5 * time.Minute
	// MaxClockSkew is how far the clocks of hub and members may be apart. A cluster whose clock is further apart gets no permit.
	MaxClockSkew = 2 * time.Minute
	// shortestRenewal is how long a renewed permit is at least.
	shortestRenewal = 5 * time.Minute
	// maxEpochLead is how far the epoch of a report may be beyond that of the hub and beyond the time. No hub gives such numbers.
	maxEpochLead = 1_000_000
	// cutOffWindow: if more than half of the members are lost within it, the hub is cut off, and not the members.
	cutOffWindow = time.Minute
	// soakLimit times the soak is how long a cluster may take to soak.
	soakLimit = 6
)

// Seen is what an executor of the hub observed for one FleetRollout, as values.
type Seen struct {
	Namespace, Name, UID string
	// Paused is spec.paused.
	Paused bool
	// Delivery says how the version comes into the clusters.
	Delivery Delivery
	// Release is spec.release: the version that the clusters should get.
	Release api.FleetRelease
	// Spec is the plan of the next release.
	Spec Spec
	// SpecProblem says why there is no valid Spec, and what to do; "" if there is one.
	SpecProblem string
	// Status is the committed status.
	Status api.FleetRolloutStatus
	// Members are all FleetMembers, by name.
	Members map[string]Member
	// Targets are the FleetTargets of this FleetRollout, by cluster.
	Targets map[string]Target
	// Reports are the last reports that the executor received, by cluster.
	Reports map[string]api.FleetReport
	// LastOrder is the highest permit among the last orders that executors have published. A hub that was restored does not know it.
	LastOrder api.PermitNumber
	// Started is when the executor began to listen.
	Started time.Time
}

// Delivery says how a version comes into the clusters.
type Delivery string

// Values of Delivery.
const (
	// DeliveryExternal: a GitOps tool or a pipeline changes the workload in each cluster.
	DeliveryExternal Delivery = "External"
	// DeliveryPatch: the member sets the images.
	DeliveryPatch Delivery = "Patch"
)

// Member is a cluster of the fleet.
type Member struct {
	Labels labels.Set
	// LastSeen is when the executor got the last heartbeat. It is zero if the executor has heard no heartbeat since Started.
	LastSeen time.Time
	// SilentFrom and HeardFrom are the ends of the last silence of more than UnreachableAfter: no executor has heard the member in between, as far as this one
	// knows. They are zero if there was none.
	SilentFrom, HeardFrom time.Time
	// Ready: an executor has heard the member, as its status says.
	Ready bool
	// Cordoned: the cluster begins nothing new.
	Cordoned bool
	// Unenforced: no policy and no webhook of the cluster holds changes.
	Unenforced bool
	// ClockSkew is how far the clock of the cluster is ahead.
	ClockSkew time.Duration
	// NoTraffic: the cluster has no users, and skips its analyses.
	NoTraffic bool
	// NameTaken: another cluster reports under this name.
	NameTaken bool
}

// Target is a FleetTarget.
type Target struct {
	Permit api.FleetPermit
	Status api.FleetTargetStatus
}

// Spec is a valid FleetPlan.
type Spec struct {
	// Written is the spec as the user wrote it. The release keeps it in its status.
	Written  api.FleetStrategy
	Clusters labels.Selector
	Waves    []Wave
	// MaxFailed is -1 for no limit.
	MaxFailed        int
	OnMetrics        api.FleetFailurePolicy
	OnRejection      api.FleetFailurePolicy
	OnBudget         api.FleetFailurePolicy
	ProgressDeadline time.Duration
	DeliveryDeadline time.Duration
	AllowNoWayBack   bool
}

// withdraws reports whether a failure of a cluster may take the version back in all clusters.
func (s Spec) withdraws() bool {
	return s.OnMetrics == api.FleetFailureWithdraw || s.OnRejection == api.FleetFailureWithdraw || s.OnBudget == api.FleetFailureWithdraw
}

// Wave is a valid wave of a plan.
type Wave struct {
	Name string
	// Clusters is nil for all that are left.
	Clusters labels.Selector
	// Percent of those, 0 for all.
	Percent        int
	MaxConcurrency Amount
	// HoldAt is a step from 1, 0 for none.
	HoldAt       int32
	HoldSoak     time.Duration
	HoldPause    Pause
	Soak         time.Duration
	Pause        Pause
	MinCompleted int
	Failed       Amount
	Unreachable  Amount
	Unknown      Amount
}

// selects reports whether the wave is for clusters with these labels.
func (w Wave) selects(of labels.Set) bool { return w.Clusters == nil || w.Clusters.Matches(of) }

// Pause is a wait of a wave.
type Pause struct {
	// Manual: until an approval.
	Manual bool
	// Duration of a wait that ends by itself, 0 for none.
	Duration time.Duration
}

// Waits reports whether there is a wait at all.
func (p Pause) Waits() bool { return p.Manual || p.Duration > 0 }

// Amount is a number of clusters, or a percentage of the clusters of a wave.
type Amount struct {
	Value   int
	Percent bool
	// Least is what RoundDown returns at least.
	Least int
}

// RoundUp returns the number of clusters of n, at least 1.
func (a Amount) RoundUp(n int) int {
	if a.Percent {
		return max(1, (a.Value*n+99)/100)
	}
	return max(1, a.Value)
}

// RoundDown returns the number of clusters of n.
func (a Amount) RoundDown(n int) int {
	if a.Percent {
		return max(a.Least, a.Value*n/100)
	}
	return max(a.Least, a.Value)
}

// Decision is what an executor does next. It commits Status first, then writes Targets, and then publishes their permits.
type Decision struct {
	Status api.FleetRolloutStatus
	// Targets are the FleetTargets to write, by cluster. A write is refused if the stored permit is newer.
	Targets map[string]Target
	// WakeAt is when the executor plans again even if nothing happens; zero for never.
	WakeAt time.Time
}

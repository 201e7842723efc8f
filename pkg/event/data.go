package event

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Data is the body of every event about a release. Events of [TypeDecided], [TypeMeasured] and [TypeVerdict] have a body of their own. Unknown values
// are left out. Readers must ignore fields that they do not know, because later versions add fields.
type Data struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`

	Release *Release `json:"release,omitempty"`
	Step    *Step    `json:"step,omitempty"`

	// From and To are the states before and after.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Reason is one word for programs, Message a sentence for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Cause is the cause of the event, and Actor is the user who caused it, if known.
	Cause Cause  `json:"cause"`
	Actor string `json:"actor,omitempty"`
}

// Release identifies the release of an event.
type Release struct {
	// Epoch counts the releases of the Rollout.
	Epoch int64 `json:"epoch"`
	// RolloutID is the id that the owner of the workload gave the release.
	RolloutID string `json:"rolloutID,omitempty"`
	// StableRevision and CanaryRevision have the values of status.sluice.
	StableRevision string `json:"stableRevision,omitempty"`
	CanaryRevision string `json:"canaryRevision,omitempty"`
}

// Step is the step of an event and the plan for this step.
type Step struct {
	// Index is counted from 1; Of is the number of steps.
	Index int32 `json:"index"`
	Of    int32 `json:"of,omitempty"`
	// Replicas is a number of pods or a percentage, as in the plan.
	Replicas string `json:"replicas,omitempty"`
	// Weight is the new version's share of the traffic in percent. It is absent if, for example, the number of pods decides. Matches is true if the
	// step routes requests by their content.
	Weight  *float64 `json:"weight,omitempty"`
	Matches bool     `json:"matches,omitempty"`
}

// TrafficWeight returns the share in percent in status.sluice.traffic, or nil if that field holds no share.
func TrafficWeight(traffic string) *float64 {
	share, ok := rollout.TrafficShare(traffic)
	if !ok {
		return nil
	}
	return new(float64(share))
}

// NewTransition returns the event about a transition in the outbox of a Rollout's status. The same transition always has the same id, type, time and
// sequence. The plan and the revisions have the values at the time of the report. They are left out if another release has begun since.
func NewTransition(cluster string, seen rollout.Seen, t api.Transition) (Event, error) {
	of := Rollout{Cluster: cluster, Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}
	kind := KindOf(t)
	data := Data{
		Cluster: of.Cluster, Namespace: of.Namespace, Name: of.Name, UID: of.UID,
		From: t.From, To: t.To, Reason: t.Reason, Message: t.Message, Cause: kind.Cause, Actor: t.Actor,
	}
	current := true
	if m := seen.Status.Sluice; m != nil {
		epoch := epochOf(m, t.Seq)
		current = epoch == m.Epoch
		data.Release = releaseData(m, epoch)
	}
	data.Step = stepData(t, seen.Spec.Steps, current)
	return NewChange(of, Change{Noun: kind.Noun, Verb: kind.Verb, Seq: t.Seq, At: t.Time.Time, Data: data})
}

// epochOf returns the epoch of a transition in the outbox: each later start of a release has raised the epoch by one.
func epochOf(m *api.SluiceStatus, seq int64) int64 {
	epoch := m.Epoch
	for _, t := range m.Transitions {
		if t.Seq > seq && rollout.State(t.To) == rollout.StateInitializing {
			epoch--
		}
	}
	return epoch
}

// releaseData returns nil before the first release.
func releaseData(m *api.SluiceStatus, epoch int64) *Release {
	switch {
	case epoch <= 0:
		return nil
	case epoch != m.Epoch:
		return &Release{Epoch: epoch}
	}
	return &Release{Epoch: epoch, RolloutID: m.RolloutID, StableRevision: m.StableRevision, CanaryRevision: m.CanaryRevision}
}

// stepData returns nil if no release is under way: the machine then stays at the last step of the earlier plan.
func stepData(t api.Transition, plan []rollout.Step, current bool) *Step {
	if t.Step < 1 || !rollout.State(t.From).Releasing() && !rollout.State(t.To).Releasing() {
		return nil
	}
	s := &Step{Index: t.Step, Weight: TrafficWeight(t.Traffic)}
	if !current || int(t.Step) > len(plan) {
		return s
	}
	want := plan[t.Step-1]
	s.Of, s.Replicas, s.Matches = int32(len(plan)), want.Replicas.String(), len(want.Matches) > 0
	return s
}

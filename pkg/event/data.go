package event

import (
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Data is the body of every event about a release; events of [TypeDecided], [TypeMeasured] and [TypeVerdict] have a body of their own. Unknown
// values are left out. Readers must accept unknown fields as later additions.
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
	// Cause says what it came of, Actor who did that, as far as that is known.
	Cause Cause  `json:"cause"`
	Actor string `json:"actor,omitempty"`
}

// Release says which release an event belongs to.
type Release struct {
	// Epoch counts the releases of the Rollout.
	Epoch int64 `json:"epoch"`
	// RolloutID is the id that the owner of the workload gave the release.
	RolloutID string `json:"rolloutID,omitempty"`
	// StableRevision and CanaryRevision come from status.canaryStatus.
	StableRevision string `json:"stableRevision,omitempty"`
	CanaryRevision string `json:"canaryRevision,omitempty"`
}

// Step says in which step something happened, and what the plan wants of it.
type Step struct {
	// Index is counted from 1; Of is the number of steps.
	Index int32 `json:"index"`
	Of    int32 `json:"of,omitempty"`
	// Replicas is a number of pods or a percentage, as the plan has it.
	Replicas string `json:"replicas,omitempty"`
	// Weight is the share of the traffic in percent that the new version got; absent where something else decided, such as the number of pods. Matches is set when the
	// step routes requests by what they carry.
	Weight  *float64 `json:"weight,omitempty"`
	Matches bool     `json:"matches,omitempty"`
}

// TrafficWeight returns the share in percent that status.sluice.traffic holds, nil if it holds none.
func TrafficWeight(traffic string) *float64 {
	share, ok := rollout.TrafficShare(traffic)
	if !ok {
		return nil
	}
	return new(float64(share))
}

// NewTransition is the event about a transition of a Rollout in the outbox of its status. The same transition always has the same id, type, time and
// sequence. The fields of the plan and the revisions have their values at the time of publication; they are left out if another release has begun
// since.
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

// epochOf finds out to which release a transition of the outbox belongs: each start of a release since then is one later.
func epochOf(m *api.SluiceStatus, seq int64) int64 {
	epoch := m.Epoch
	for _, t := range m.Transitions {
		if t.Seq > seq && rollout.State(t.To) == rollout.StateInitializing {
			epoch--
		}
	}
	return epoch
}

// releaseData is nil before the first one.
func releaseData(m *api.SluiceStatus, epoch int64) *Release {
	switch {
	case epoch <= 0:
		return nil
	case epoch != m.Epoch:
		return &Release{Epoch: epoch}
	}
	return &Release{Epoch: epoch, RolloutID: m.RolloutID, StableRevision: m.StableRevision, CanaryRevision: m.CanaryRevision}
}

// stepData is nil at rest, where the machine stands on the last step of a plan that is not under way.
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

package planner

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// A user may retry an aborted release at any moment, even while its pods are still going back.
func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	aborted := func(pods, old int32) *given {
		g := replacing(2, pods, pods, old).by("StatefulSet", rollout.MechanismPartition).unrouted()
		g.Status.Sluice.FinaliseReason = api.FinaliseAborted
		return g.In(rollout.StateAborted)
	}
	leaving := func(left time.Duration) *given {
		return aborted(5, 5).With(func(g *given) {
			until := metav1.NewMicroTime(g.now.Add(left))
			g.Status.Sluice.GraceUntil, g.Status.Sluice.GraceFor = &until, "traffic"
		})
	}
	for sentence, test := range map[string]struct {
		given  *given
		state  rollout.State
		stable string
		grace  bool
		says   string
	}{
		"begins at its first step":                                   {given: aborted(5, 5), state: rollout.StateUpgrade, stable: "h1"},
		"a stable version stays stable while its last pod is coming": {given: aborted(9, 0), state: rollout.StateUpgrade, stable: "h1"},
		"without one that comes there is nothing to go back to": {
			given: aborted(9, 0).With(func(g *given) { g.Workload.RevertsTo = "" }), state: rollout.StateFinalising, stable: "h2",
		},
		"traffic that may still be on its way is kept in mind":      {given: leaving(time.Second), state: rollout.StateUpgrade, stable: "h1", grace: true},
		"traffic that cannot be any more is not":                    {given: leaving(0), state: rollout.StateUpgrade, stable: "h1"},
		"what has its stable version back already is not, and says": {given: aborted(5, 5).RolledBack(), state: rollout.StateFinalising, stable: "h1", says: "has its stable version back"},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := Plan(test.given.Told(api.CommandRetry).Seen, test.given.now)
			m := d.Status.Sluice
			if rollout.State(m.State) != test.state || m.StableRevision != test.stable || (m.GraceUntil != nil) != test.grace || d.Status.Command != nil {
				t.Errorf("it is in %s, from %s, traffic is waited for: %t, command %v; want %s from %s, %t", m.State, m.StableRevision, m.GraceUntil != nil, d.Status.Command, test.state, test.stable, test.grace)
			}
			if said := notes(d); !strings.Contains(said, test.says) {
				t.Errorf("it says %q, not %q", said, test.says)
			}
		})
	}
}

// A release with all its approvals cannot be aborted. Its message tells the user to roll back instead.
func TestAnAbortThatComesTooLate(t *testing.T) {
	t.Parallel()
	for reason, says := range map[api.FinaliseReason]string{
		api.FinaliseSuccess:  "to go back, roll the workload back: sluice undo demo -n shop",
		api.FinaliseRollback: "it does not fit the state Finalising",
	} {
		g := replacing(2, 5, 5, 5).Finalising(reason)
		if reason == api.FinaliseRollback {
			g = g.RolledBack()
		}
		d := Plan(g.Told(api.CommandAbort).Seen, g.now)
		if m := d.Status.Sluice; rollout.State(m.State) != rollout.StateFinalising || m.FinaliseReason != reason || d.Status.Command != nil {
			t.Errorf("it ends for %q in %s, and the command is %v; want %q", m.FinaliseReason, m.State, d.Status.Command, reason)
		}
		if said := notes(d); !strings.Contains(said, says) {
			t.Errorf("it says %q, not %q", said, says)
		}
	}
}

func TestAReleaseTriedAgainThatIsRolledBackMeanwhile(t *testing.T) {
	t.Parallel()
	g := replacing(2, 9, 9, 0).by("DaemonSet", rollout.MechanismOnDelete).unrouted().RolledBack().Finalising(api.FinaliseRetry)
	if got := Plan(g.Seen, g.now).Status.Sluice; got.FinaliseReason != api.FinaliseRollback {
		t.Errorf("it ends for %q in %s, want a rollback", got.FinaliseReason, got.State)
	}
}

// notes returns the Kubernetes Events of a decision.
func notes(d rollout.Decision) string {
	var said []string
	for _, n := range d.KubeEvents {
		said = append(said, n.Message)
	}
	return strings.Join(said, "; ")
}

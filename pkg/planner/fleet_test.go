package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// inFleet puts an idle Rollout into a fleet. Its workload runs v1 under that name.
func inFleet() *given {
	g := aRollout()
	g.Spec.Fleet = &api.FleetReference{Namespace: "shop", Name: "demo"}
	g.named("v1")
	g.Workload.HistoryLimit = 10
	return g.Planned()
}

// named gives the workload's template its names, and the Rollout a revision for it.
func (g *given) named(v string) *given {
	g.Workload.Version = api.FleetVersion{Version: v, Images: "sha256:" + v, Revision: v}
	return g
}

// waitsFor is a Rollout of a fleet whose change to v2 is held.
func waitsFor() *given { return inFleet().HeldAt("v2").named("v2").Planned() }

// permit gives the next permit, for v2 unless change says otherwise. Its use is on record.
func (g *given) permit(verb api.FleetVerb, changes ...func(*api.FleetPermit)) *given {
	last := g.Permit.Number()
	g.Permit = &api.FleetPermit{Epoch: 1, Seq: last.Seq + 1, Verb: verb}
	if verb != api.FleetVerbAbort {
		g.Permit.Version = "version/v2"
	}
	if verb == api.FleetVerbRelease || verb == api.FleetVerbHold {
		g.Permit.Revision, g.Permit.PlanHash = "v2", g.Spec.Hash
	}
	for _, change := range changes {
		change(g.Permit)
	}
	g.PermitUsed = g.Permit.Number()
	return g
}

func holdAt(step int32) func(*api.FleetPermit) { return func(p *api.FleetPermit) { p.HoldAt = step } }

func until(d time.Duration) func(*api.FleetPermit) {
	return func(p *api.FleetPermit) { p.NotAfter = new(metav1.NewMicroTime(start.Add(d))) }
}

func keepsPauses(p *api.FleetPermit) { p.LocalPauses = api.FleetLocalPausesKeep }

// underPermit is a release of v2 at a step, under a permit for all of it. Everything is as the step wants it.
func underPermit(step int32, changes ...func(*api.FleetPermit)) *given {
	g := waitsFor().permit(api.FleetVerbRelease, changes...).Planned()
	return g.AtStep(step)
}

// answer is what a decision tells the hub, and what the Rollout does.
func (g *given) answer() string {
	d := Plan(g.Seen, g.now)
	var actions []string
	for _, a := range d.Actions {
		actions = append(actions, a.String())
	}
	if d.Report == nil {
		return fmt.Sprintf("%s, step %d: nothing", d.Status.Sluice.State, d.Status.Sluice.Step)
	}
	said := fmt.Sprintf("%s, step %d: %s", d.Status.Sluice.State, d.Status.Sluice.Step, d.Report.State)
	if d.Report.Reason != "" {
		said += " " + d.Report.Reason
	}
	if d.Report.Overridden != "" {
		said += ", overridden"
	}
	if d.Report.AwaitsPerson {
		said += ", awaits a person"
	}
	if d.Report.Unpermitted != "" {
		said += ", unpermitted " + d.Report.Unpermitted
	}
	if len(actions) > 0 {
		said += "; " + strings.Join(actions, ", ")
	}
	return said
}

func TestHowFarAPermitGoes(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"a held version waits for its permit":            {waitsFor(), "Initializing, step 1: Held AwaitingPermit"},
		"its use is recorded first":                      {waitsFor().permit(api.FleetVerbRelease).With(func(g *given) { g.PermitUsed = api.PermitNumber{} }), "Initializing, step 1: Held; record that permit 1 of epoch 1 is used"},
		"with a permit it begins":                        {waitsFor().permit(api.FleetVerbRelease), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"a permit for another template counts not":       {waitsFor().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Revision = "v3" }), "Initializing, step 1: Held AwaitingPermit"},
		"a permit for another version counts not":        {waitsFor().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version = "version/v3" }), "Initializing, step 1: Held AwaitingPermit"},
		"a permit by the images counts":                  {waitsFor().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version = "images/sha256:v2" }), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"a permit for other steps counts not":            {waitsFor().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.PlanHash = "x" }), "Initializing, step 1: Held PlanChanged, awaits a person"},
		"a pause of the cluster's own awaits a person":   {underPermit(2).With(func(g *given) { g.Spec.Paused = true }), "StepUpgrade, step 2: Progressing, awaits a person"},
		"also before the release begins":                 {waitsFor().permit(api.FleetVerbRelease).With(func(g *given) { g.Spec.Paused = true }), "Initializing, step 1: Held, awaits a person"},
		"a pause holds up no abort":                      {underPermit(2).With(func(g *given) { g.Spec.Paused = true }).permit(api.FleetVerbAbort), "Aborted, step 2: Progressing; restore VirtualService demo"},
		"a permit to hold lets nothing begin":            {waitsFor().permit(api.FleetVerbHold), "Initializing, step 1: AtHold AtHold"},
		"an expired permit lets nothing begin":           {waitsFor().permit(api.FleetVerbRelease, until(-3*time.Minute)), "Initializing, step 1: Held PermitExpired"},
		"clocks may be two minutes apart":                {waitsFor().permit(api.FleetVerbRelease, until(-time.Minute)), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"the permit is the approval of a pause":          {underPermit(1).Paused(), "StepUpgrade, step 2: Progressing; scale canary demo-canary to 5 replicas"},
		"unless the fleet keeps the pauses":              {underPermit(1, keepsPauses).Paused(), "StepPaused, step 1: Progressing, awaits a person"},
		"it holds at a step":                             {underPermit(1, holdAt(1)).Paused(), "StepPaused, step 1: AtHold AtHold"},
		"also with an approval":                          {underPermit(1, holdAt(1)).Paused().Approved(), "StepReady, step 1: AtHold AtHold"},
		"and goes on with the next permit":               {underPermit(1, holdAt(1)).Paused().Planned().permit(api.FleetVerbRelease), "StepUpgrade, step 2: Progressing; scale canary demo-canary to 5 replicas"},
		"the last step of fewer steps is the hold":       {underPermit(3, holdAt(7)).Ready(), "StepReady, step 3: AtHold AtHold"},
		"without a hold it completes":                    {underPermit(3).Ready(), "Finalising, step 3: Progressing; unpin Service demo"},
		"a verb holds it at its step":                    {underPermit(1).permit(api.FleetVerbHold).Ready(), "StepReady, step 1: AtHold AtHold"},
		"a step under way ends under an expired permit":  {underPermit(1).permit(api.FleetVerbRelease, until(-time.Hour)), "StepPaused, step 1: Progressing PermitExpired"},
		"edited steps hold":                              {underPermit(1).Paused().With(func(g *given) { g.Spec.Hash = "edited" }), "StepPaused, step 1: AtHold PlanChanged, awaits a person"},
		"a later permit is for the edited steps":         {underPermit(1).Paused().With(func(g *given) { g.Spec.Hash = "edited" }).permit(api.FleetVerbRelease), "BeforeStepUpgrade, step 2: Progressing"},
		"a jump beyond the permit is taken back":         {underPermit(1, holdAt(1), keepsPauses).Paused().Jumping(3), "StepPaused, step 1: Progressing, awaits a person"},
		"a jump back needs no permit":                    {underPermit(2, keepsPauses).permit(api.FleetVerbHold).Paused().Jumping(1), "StepTrafficRouting, step 1: Progressing; route step 1 on VirtualService demo"},
		"a promotion beyond the permit is refused":       {underPermit(1, holdAt(1), keepsPauses).Paused().Told(api.CommandPromote), "StepPaused, step 1: Progressing, awaits a person"},
		"a promotion within it is followed":              {underPermit(1, keepsPauses).Paused().Told(api.CommandPromote), "Finalising, step 1: Progressing; unpin Service demo"},
		"an approval by force stops at the hold":         {underPermit(1, holdAt(1)).Paused().Told(api.CommandApprove), "StepReady, step 1: AtHold AtHold"},
		"an override goes on without a permit":           {waitsFor().Told(api.CommandOverride), "BeforeStepUpgrade, step 1: Progressing, overridden; pin Service demo to h1"},
		"an override ends with its release":              {inFleet().overridden(), "Idle, step 3: Idle"},
		"an override ends with an abort":                 {underPermit(1).Told(api.CommandAbort).Planned().Cleared().Planned().overridden(), "Aborted, step 1: Failed Aborted"},
		"a version that runs already is completed":       {inFleet().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version, p.Revision = "version/v1", "v1" }), "Idle, step 3: Completed"},
		"a held change does not hide what has completed": {waitsFor().permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version, p.Revision = "version/v1", "v1" }), "Initializing, step 1: Completed"},
		"a return to the version before needs no permit": {servedBefore("v1x").HeldAt("v1x").named("v1x"), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"a return to a version that was withdrawn once needs one": {servedBefore("v1x").HeldAt("v1x").named("v1x").With(func(g *given) {
			g.Status.Fleet.Blocked = []api.FleetBlock{{Version: "version/v1x", Epoch: 1, Unblocked: true}}
		}), "Initializing, step 1: Held AwaitingPermit"},
		"a version that a user took back has failed": {
			servedBefore("v1x").permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version, p.Revision = "version/v9", "v9" }).With(func(g *given) {
				g.Status.Fleet.Used = &api.FleetPermitUse{Epoch: 1, Seq: 1, Release: g.Status.Sluice.Epoch - 1, Revision: "v9"}
			}), "Idle, step 3: Failed Rollback"},
		"an object that cannot be read is no report":       {inFleet().With(func(g *given) { g.Problems = []rollout.Problem{{Reason: rollout.ReasonUnreadable, Unknown: true}} }), "Idle, step 3: nothing"},
		"a return to an older version than that needs one": {servedBefore("v0", "v1x").HeldAt("v0").named("v0"), "Initializing, step 1: Held AwaitingPermit"},
		"a newer version waits for a permit of its own": {
			underPermit(1).HeldAt("v3").named("v3").Cleared().Planned(), "Initializing, step 1: Held AwaitingPermit"},
		"a rejection in the cluster is a failure":            {underPermit(1, keepsPauses).Paused().rejected(), "StepPaused, step 1: Failed Rejected"},
		"a workload that is missing is told":                 {inFleet().With(func(g *given) { g.Workload = nil }), "Idle, step 3: Idle WorkloadMissing"},
		"no fleet governs a disabled Rollout":                {inFleet().Disabled(), "Disabled, step 3: Ungoverned Disabled; disown Deployment demo"},
		"a release that began before the fleet ends as ever": {beforeTheFleet(), "StepUpgrade, step 2: Progressing; scale canary demo-canary to 5 replicas"},
		"a release whose status lost the fleet holds":        {beforeTheFleet().With(func(g *given) { g.PermitUsed = api.PermitNumber{Epoch: 1, Seq: 1} }), "StepReady, step 1: Held AwaitingPermit"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := test.given.answer(); got != test.want {
				t.Errorf("it is in %s\n want it in %s", got, test.want)
			}
		})
	}
}

// servedBefore is an idle Rollout of a fleet that has served versions before v1, the oldest first.
func servedBefore(older ...string) *given {
	g := inFleet()
	for _, v := range older {
		g.Workload.Revisions = slices.Insert(g.Workload.Revisions, 0, rollout.Revision{Hash: "h" + v, Revision: v})
		g.Status.Fleet.Served = slices.Insert(g.Status.Fleet.Served, 1, api.FleetVersion{Version: v, Images: "sha256:" + v, Revision: v})
	}
	return g
}

// beforeTheFleet is a release at its first step, approved, when spec.fleet is set.
func beforeTheFleet() *given {
	g := aRelease().AtStep(1).Ready()
	g.Spec.Fleet = &api.FleetReference{Namespace: "shop", Name: "demo"}
	return g.named("v2")
}

// overridden lets the present release go on without permits.
func (g *given) overridden() *given {
	g.Status.Fleet.Override = &api.FleetOverride{Release: g.Status.Sluice.Epoch, Actor: "kim"}
	return g
}

func (g *given) rejected() *given {
	m := g.Status.Sluice
	g.Status.Approvals = append(g.Status.Approvals, api.Approval{Step: m.Step, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Decision: api.DecisionReject, Actor: "ann"})
	return g
}

func TestAPermitBeginsOneRelease(t *testing.T) {
	t.Parallel()
	failed := func() *given {
		return underPermit(1).Told(api.CommandAbort).Planned().Cleared()
	}
	if got, want := failed().answer(), "Aborted, step 1: Failed Aborted"; !strings.HasPrefix(got, want) {
		t.Errorf("after an abort in the cluster it is in %s, want %s", got, want)
	}
	if got, want := failed().Told(api.CommandRetry).answer(), "Initializing, step 1: Failed Aborted"; got != want {
		t.Errorf("tried again in the cluster it is in %s, want %s", got, want)
	}
	if got, want := failed().permit(api.FleetVerbRelease).answer(), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"; got != want {
		t.Errorf("with another permit it is in %s, want %s", got, want)
	}
	early := waitsFor().Told(api.CommandAbort).Planned()
	if got, want := early.permit(api.FleetVerbRelease).answer(), "Aborted, step 1: Failed Aborted"; got != want {
		t.Errorf("aborted before its permit it is in %s, want %s", got, want)
	}
	if got, want := early.Planned().permit(api.FleetVerbRelease).answer(), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"; got != want {
		t.Errorf("with the permit after that it is in %s, want %s", got, want)
	}
}

// After an abort, the message names what the fleet lets a user do.
func TestAnAbortInAFleetNamesWhatHelps(t *testing.T) {
	t.Parallel()
	aborted := func() *given { return underPermit(1).Told(api.CommandAbort).Planned().Cleared().Planned() }
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"alone": {aborted(), "or try again from the hub: sluice fleet retry demo CLUSTER -n shop"},
		"and the fleet withdraws the version later": {aborted().permit(api.FleetVerbWithdraw).Planned(), "or allow this one again at the hub: sluice fleet unblock demo version/v2 -n shop"},
	} {
		if got := test.given.Planned().condition(api.ConditionProgressing).Message; !strings.HasSuffix(got, test.want) {
			t.Errorf("%s it says %q, want the end %q", sentence, got, test.want)
		}
	}
}

// A Rollout that was deleted and created again begins nothing under the permit of the first one.
func TestAPermitIsForOneRollout(t *testing.T) {
	t.Parallel()
	of := func(uid types.UID) func(*api.FleetPermit) { return func(p *api.FleetPermit) { p.RolloutUID = uid } }
	if got, want := waitsFor().permit(api.FleetVerbRelease, of("u")).answer(), "BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"; got != want {
		t.Errorf("with its own permit it is in %s, want %s", got, want)
	}
	if got, want := waitsFor().permit(api.FleetVerbRelease, of("another")).answer(), "Initializing, step 1: Held AwaitingPermit"; got != want {
		t.Errorf("with the permit of another one it is in %s, want %s", got, want)
	}
}

// A person in the cluster learns why no permit comes, and what to do.
func TestWhatIsSaidAboutAPermitThatDoesNotCome(t *testing.T) {
	t.Parallel()
	deleted := func(p *api.FleetPermit) { p.Epoch, p.Seq = 2, 0 }
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"the hub has given none":           {waitsFor(), "waiting for a permit of FleetRollout shop/demo"},
		"spec.fleet names another one":     {inFleet().HeldAt("v2").named("v2").With(func(g *given) { g.Name = "web" }), "spec.fleet names FleetRollout shop/demo, and only FleetRollout shop/web governs this Rollout; correct spec.fleet"},
		"the hub holds the release":        {underPermit(2).permit(api.FleetVerbHold), "FleetRollout shop/demo holds the release"},
		"the FleetRollout was deleted":     {underPermit(2).permit(api.FleetVerbHold, deleted), "FleetRollout shop/demo was deleted at the hub; create it again, or let this release end without permits: sluice fleet override demo -n shop --reason WHY"},
		"it was deleted before any permit": {waitsFor().permit(api.FleetVerbHold, deleted, func(p *api.FleetPermit) { p.Version, p.Revision = "", "" }), "FleetRollout shop/demo was deleted at the hub; create it again, or remove spec.fleet from this Rollout"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			test.given.Namespace = "shop"
			if d := Plan(test.given.Seen, test.given.now); !strings.Contains(d.Report.Message, test.want) {
				t.Errorf("it says %q\n    want %q", d.Report.Message, test.want)
			}
		})
	}
}

// The tool that applies a withdrawn version again is named where a workload cannot be left held.
func TestAContestedWorkloadNamesItsClient(t *testing.T) {
	t.Parallel()
	g := waitsFor().permit(api.FleetVerbWithdraw).With(func(g *given) {
		g.Spec.Style, g.Workload.UpdateMechanism, g.Workload.TemplateManager = rollout.StylePartition, rollout.MechanismOnDelete, "argocd-controller"
	})
	if d := Plan(g.Seen, g.now); !strings.Contains(d.Report.Message, "argocd-controller has applied it again") {
		t.Errorf("the report says %q", d.Report.Message)
	}
}

func TestWhatAFleetTakesBack(t *testing.T) {
	t.Parallel()
	v1 := func(p *api.FleetPermit) { p.Version = "version/v1" }
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"a withdrawal aborts a release, traffic first":                                    {underPermit(1).Paused().permit(api.FleetVerbWithdraw), "Aborted, step 1: Progressing; restore VirtualService demo"},
		"it is answered when nothing of it is left":                                       {underPermit(1).Paused().permit(api.FleetVerbWithdraw).Planned().Cleared(), "Aborted, step 1: Completed"},
		"a tool that applies a version again that has failed here does not keep its pods": {failedHere(), "Finalising, step 2: Failed Aborted; restore the template of h1 on Deployment demo"},
		"after a newer permit it is released again":                                       {failedHere().permit(api.FleetVerbRelease), "Finalising, step 2: Held; restore VirtualService demo"},
		"a held version stays held":                                                       {waitsFor().permit(api.FleetVerbWithdraw), "Initializing, step 1: Completed"},
		"a daemon cannot be left held": {waitsFor().permit(api.FleetVerbWithdraw).With(func(g *given) {
			g.Spec.Style, g.Workload.UpdateMechanism = rollout.StylePartition, rollout.MechanismOnDelete
		}), "Initializing, step 1: Completed Contested"},
		"a retry of a withdrawn version is refused":        {underPermit(1).permit(api.FleetVerbWithdraw).Planned().Cleared().Told(api.CommandRetry), "Aborted, step 1: Completed"},
		"an override does not release a withdrawn version": {waitsFor().permit(api.FleetVerbWithdraw).Planned().Told(api.CommandOverride), "Initializing, step 1: Completed"},
		"a workload goes back from what all its pods run":  {servedBefore("v0").permit(api.FleetVerbWithdraw, v1), "Finalising, step 3: Progressing; restore the template of hv0 on Deployment demo"},
		"again if a tool applies it again": {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().HeldAt("v1"),
			"Finalising, step 3: Progressing; restore the template of hv0 on Deployment demo"},
		"then it runs the version before by itself": {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().HeldAt("v0").named("v0"), "Finalising, step 3: Progressing; resume Deployment demo"},
		"until no pod is left":                      {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().runs("v0", 9).named("v0"), "Finalising, step 3: Progressing"},
		"at its end it is answered":                 {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().runs("v0", 10).named("v0"), "Idle, step 3: Completed"},
		"before that its last pods go":              {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().runs("v0", 10).named("v0").surplus("v1"), "Idle, step 3: Progressing"},
		"a tool that applies it again takes no answer back": {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().runs("v0", 10).named("v0").Planned().HeldAt("v1").named("v1").
			With(func(g *given) { g.Workload.Observed, g.Workload.Updated = false, 10 }), "Initializing, step 1: Completed"},
		"fewer pods of the version before take no answer back": {servedBefore("v0").permit(api.FleetVerbWithdraw, v1).Planned().runs("v0", 10).named("v0").surplus("v0"), "Idle, step 3: Completed"},
		"a first version has no way back":                      {inFleet().permit(api.FleetVerbWithdraw, v1), "Idle, step 3: Failed NoWayBack"},
		"another version leads away from it": {inFleet().permit(api.FleetVerbWithdraw, v1).Planned().HeldAt("v2").named("v2").permit(api.FleetVerbRelease),
			"BeforeStepUpgrade, step 1: Progressing; pin Service demo to h1"},
		"an abort aborts a release":                        {underPermit(2).permit(api.FleetVerbAbort), "Aborted, step 2: Progressing; restore VirtualService demo"},
		"an abort leaves what has completed":               {inFleet().permit(api.FleetVerbAbort), "Idle, step 3: Completed"},
		"an abort before an override counts not":           {waitsFor().permit(api.FleetVerbAbort).Planned().Told(api.CommandOverride), "BeforeStepUpgrade, step 1: Completed, overridden; pin Service demo to h1"},
		"an abort after it does":                           {waitsFor().Told(api.CommandOverride).Planned().AtStep(1).permit(api.FleetVerbAbort), "Aborted, step 1: Progressing; restore VirtualService demo"},
		"a withdrawal comes before the last pods":          {underPermit(3).Finalising(api.FinaliseSuccess).permit(api.FleetVerbWithdraw), "Finalising, step 3: Progressing; restore the template of h1 on Deployment demo"},
		"a user's rollback keeps the stale name, and ends": {staleName().permit(api.FleetVerbWithdraw), "Idle, step 3: Completed"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := test.given.answer(); got != test.want {
				t.Errorf("it is in %s\n want it in %s", got, test.want)
			}
		})
	}
}

// failedHere is a release of v2 that was aborted under its permit. While its pods go back, a client has applied v2 again.
func failedHere() *given {
	return underPermit(2).With(func(g *given) { g.Status.Fleet.Used.Failure = "Aborted" }).Finalising(api.FinaliseRollback)
}

// staleName is a workload with the template of v1 and an annotation that still names v2.
func staleName() *given {
	g := inFleet()
	g.Workload.Version.Version = "v2"
	return g
}

// runs gives the workload's pods to a version. The others run v1.
func (g *given) runs(v string, pods int32) *given {
	w := g.Workload
	w.Revision, w.Held, w.Paused, w.Updated = v, false, false, pods
	for i := range w.Revisions {
		set := &w.Revisions[i]
		set.Replicas, set.Ready = 0, 0
		switch set.Revision {
		case v:
			set.Replicas, set.Ready = pods, pods
		case "v1":
			set.Replicas, set.Ready = 10-pods, 10-pods
		}
	}
	return g
}

// surplus leaves a pod to the ReplicaSet controller to delete.
func (g *given) surplus(v string) *given {
	for i := range g.Workload.Revisions {
		if set := &g.Workload.Revisions[i]; set.Revision == v {
			set.Surplus = 1
		}
	}
	return g
}

// Analyses that a person at the hub passed over are not measured. Those of other templates are.
func TestAPermitPassesOverAnalyses(t *testing.T) {
	t.Parallel()
	skips := func(names ...string) func(*api.FleetPermit) {
		return func(p *api.FleetPermit) { p.SkipAnalyses = names }
	}
	errors, latency := rollout.TemplateRef{Name: "errors"}, rollout.TemplateRef{Name: "latency", ClusterScope: true}
	for sentence, test := range map[string]struct {
		given *given
		runs  bool
	}{
		"no template is named":      {underPermit(1), true},
		"another template is named": {underPermit(1, skips("speed")), true},
		"one of two is named":       {underPermit(1, skips("errors")), true},
		"both are named":            {underPermit(1, skips("errors", "latency")), false},
	} {
		of := rollout.Analysis{Templates: []rollout.TemplateRef{errors, latency}}
		test.given.Watched(of).Measured(1, of).Analysing()
		d := Plan(test.given.Seen, test.given.now)
		if runs := d.Status.Analysis != nil; runs != test.runs {
			t.Errorf("%s: analyses run: %t, want %t; state %s", sentence, runs, test.runs, d.Status.Sluice.State)
		}
	}
}

// A cluster without users measures nothing. A user who overrides the fleet has the metrics measured.
func TestAClusterWithoutUsersSkipsItsAnalyses(t *testing.T) {
	t.Parallel()
	empty := func(p *api.FleetPermit) { p.NoTraffic = true }
	for sentence, test := range map[string]struct {
		given *given
		runs  bool
	}{
		"with users":               {underPermit(1), true},
		"without users":            {underPermit(1, empty), false},
		"without users, by a user": {waitsFor().permit(api.FleetVerbRelease, empty).Told(api.CommandOverride).Planned().AtStep(1), true},
	} {
		test.given.Watched(rollout.Analysis{}).Measured(1, rollout.Analysis{}).Analysing()
		d := Plan(test.given.Seen, test.given.now)
		if runs := d.Status.Analysis != nil; runs != test.runs {
			t.Errorf("%s: analyses run: %t, want %t; state %s", sentence, runs, test.runs, d.Status.Sluice.State)
		}
	}
}

func TestAGovernedReleaseGivesTheStableTemplateBack(t *testing.T) {
	t.Parallel()
	for how, leave := range map[string]func(*given){
		"disabled":               func(g *given) { g.Spec.Disabled = true },
		"deleted":                func(g *given) { g.Deleting = true },
		"taken out of its fleet": func(g *given) { g.Spec.Fleet = nil },
		"given to another fleet": func(g *given) { g.Spec.Fleet = &api.FleetReference{Namespace: "pay", Name: "demo"} },
	} {
		for when, g := range map[string]*given{"while it waits": waitsFor(), "at a step": underPermit(1).Paused()} {
			t.Run(how+" "+when, func(t *testing.T) {
				t.Parallel()
				leave(g)
				restored := false
				for range 4 {
					d := Plan(g.Seen, g.now)
					for _, a := range d.Actions {
						_, is := a.(rollout.RestoreTemplate)
						restored = restored || is
						if _, resumes := a.(rollout.ResumeWorkload); resumes {
							t.Fatalf("%s with v2 in the template", a)
						}
					}
					g.Status = d.Status
					g.unrouted()
				}
				if !restored {
					t.Errorf("the template of v1 does not come back; the Rollout is in %s", g.Status.Sluice.State)
				}
			})
		}
	}
}

func TestWhatRunsWithoutAPermitIsReported(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		given *given
		want  string
	}{
		"a workload that came after its Rollout": {inFleet().With(func(g *given) { g.Status.Fleet.Served = nil }), "Idle, step 3: Idle, unpermitted FirstInstall"},
		"a version that no policy held": {inFleet().runs("v1", 10).With(func(g *given) {
			g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h2", Revision: "v2"})
			g.runs("v2", 10).named("v2")
		}), "Idle, step 3: Idle, unpermitted NotHeld"},
		"a workload that was created again": {inFleet().With(func(g *given) {
			g.Workload.UID, g.Workload.Revisions = "other", []rollout.Revision{{Hash: "h2", Revision: "v2", Replicas: 10, Ready: 10}}
			g.Workload.Revision = "v2"
			g.named("v2")
		}), "Idle, step 3: Idle, unpermitted Recreated"},
		"pods that came before the hold": {waitsFor().With(func(g *given) {
			g.Workload.Revisions = append(g.Workload.Revisions, rollout.Revision{Hash: "h2", Revision: "v2", Replicas: 2, Ready: 2})
		}), "Initializing, step 1: Held AwaitingPermit, unpermitted NotHeld"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			if got := test.given.answer(); got != test.want {
				t.Errorf("it is in %s\n want it in %s", got, test.want)
			}
		})
	}
	g := inFleet().With(func(g *given) { g.Status.Fleet.Served = nil }).Planned()
	if got, want := g.permit(api.FleetVerbRelease, func(p *api.FleetPermit) { p.Version, p.Revision = "version/v1", "v1" }).answer(), "Idle, step 3: Completed"; got != want {
		t.Errorf("a permit that comes later leaves it in %s, want %s", got, want)
	}
}

func TestAClusterWithTooFewReadyPodsIsUnhealthyAfterAMinute(t *testing.T) {
	t.Parallel()
	g := inFleet().With(func(g *given) { g.Workload.Available = 8 }).Planned()
	for after, want := range map[time.Duration]bool{59 * time.Second: false, time.Minute: true} {
		d := Plan(g.Seen, start.Add(after))
		if d.Report.Unhealthy != want || !want && !d.WakeAt.Equal(start.Add(time.Minute)) {
			t.Errorf("after %s it is unhealthy: %t, and wakes at %s", after, d.Report.Unhealthy, d.WakeAt)
		}
	}
	g.Workload.Available = 9
	if d := Plan(g.Seen, start.Add(time.Hour)); d.Report.Unhealthy || d.Status.Fleet.UnreadySince != nil {
		t.Error("with 9 of 10 pods ready it is unhealthy")
	}
}

func TestABlueGreenReleaseEndsAnHourAfterItsPermit(t *testing.T) {
	t.Parallel()
	g := underPermit(1, until(0)).Paused().With(func(g *given) { g.Spec.Style = rollout.StyleBlueGreen })
	for after, want := range map[time.Duration]rollout.State{59 * time.Minute: rollout.StatePaused, time.Hour: rollout.StateAborted} {
		if got := rollout.State(Plan(g.Seen, start.Add(after)).Status.Sluice.State); (got == rollout.StateAborted) != (want == rollout.StateAborted) {
			t.Errorf("%s after the end of its permit it is in %s, want %s", after, got, want)
		}
	}
}

func TestARolloutJoinsItsFleetWhenItsVersionIsKnown(t *testing.T) {
	t.Parallel()
	g := inFleet()
	served := g.Status.Fleet.Served
	g.Status.Fleet = nil
	g.Problems = []rollout.Problem{{Reason: rollout.ReasonUnreadable, Unknown: true}}
	if g.Planned(); g.Status.Fleet != nil {
		t.Errorf("it joins without knowing what runs: %+v", g.Status.Fleet)
	}
	g.Problems = nil
	if g.Planned(); g.Status.Fleet == nil || g.Status.Fleet.Unpermitted != "" || g.Status.Fleet.Served[0].Revision != served[0].Revision {
		t.Errorf("then it remembers %+v, want that %s serves", g.Status.Fleet, served[0].Revision)
	}
}

// A status without a fleet is what an executor of a version without fleets writes, and the policies refuse it.
func TestADisabledRolloutRemembersItsFleetWhenItMovesToAnother(t *testing.T) {
	t.Parallel()
	g := inFleet()
	served := g.Status.Fleet.Served
	g.Disabled().In(rollout.StateDisabled)
	g.Spec.Fleet = &api.FleetReference{Namespace: "pay", Name: "demo"}
	d := Plan(g.Seen, g.now)
	if f := d.Status.Fleet; f == nil || f.FleetRollout != *g.Spec.Fleet {
		t.Fatalf("it remembers %+v, want pay/demo", f)
	}
	if diff := cmp.Diff(served, d.Status.Fleet.Served); diff != "" {
		t.Errorf("the versions that served (-before +after):\n%s", diff)
	}
}

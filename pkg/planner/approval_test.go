package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// anApproval returns an approval of the current pause, made and sent one second after its beginning.
func anApproval(changes ...func(*ApprovalRequest)) ApprovalRequest {
	at := start.Add(time.Second)
	p := ApprovalRequest{
		Decision: api.DecisionApprove, Image: "shop/demo:v2", Principal: "ci", Source: "/ci/demo", ID: "1", Comment: "e2e green", Made: at, Arrived: at,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// aPause returns a release of v2 that paused in its first step some seconds ago.
func aPause() *given {
	return aRelease().AtStep(1).Paused().With(func(g *given) {
		g.Status.Sluice.PauseSeq = 1
		g.Workload.Images = []string{"shop/demo:v2", "shop/proxy:v1@" + digest}
	}).After(2 * time.Second)
}

// Decided adds a decision to the list, one second after the beginning of the pause.
func (g *given) Decided(d api.Decision, source, id, actor string) *given {
	m := g.Status.Sluice
	g.Status.Approvals = append(g.Status.Approvals, api.Approval{
		Step: m.Step, Epoch: m.Epoch, PauseSeq: m.PauseSeq, Decision: d, Actor: actor, EventID: id, Source: source, Time: microTime(start.Add(time.Second)),
	})
	return g
}

func TestAnApprovalCountsOnlyForWhatItNames(t *testing.T) {
	t.Parallel()
	step := func(n int32) func(*ApprovalRequest) { return func(p *ApprovalRequest) { p.Step = n } }
	image := func(name string) func(*ApprovalRequest) { return func(p *ApprovalRequest) { p.Image = name } }
	named := func(id, revision string) func(*ApprovalRequest) {
		return func(p *ApprovalRequest) { p.Image, p.RolloutID, p.Revision = "", id, revision }
	}
	arrived := func(after time.Duration) func(*ApprovalRequest) {
		return func(p *ApprovalRequest) { p.Made, p.Arrived = time.Time{}, start.Add(after) }
	}
	made := func(after time.Duration) func(*ApprovalRequest) {
		return func(p *ApprovalRequest) { p.Made = start.Add(after) }
	}
	bound := func(b rollout.Pause) func(*ApprovalRequest) { return func(p *ApprovalRequest) { p.Bound = &b } }
	withID := func(g *given) { g.Workload.RolloutID, g.Status.Sluice.RolloutID = "v1.4.2", "v1.4.2" }
	for name, tt := range map[string]struct {
		given *given
		p     ApprovalRequest
		want  api.Refusal
		says  string // a part of the message
	}{
		"the image of a container":                       {given: aPause(), p: anApproval(), says: "step 1 was approved by ci (e2e green)"},
		"the digest of one":                              {given: aPause(), p: anApproval(image(digest)), says: "approved"},
		"name and digest of one with a tag":              {given: aPause(), p: anApproval(image("shop/proxy@" + digest)), says: "approved"},
		"a tag where the template has a digest":          {given: aPause(), p: anApproval(image("shop/proxy:v1")), want: api.RefusalWrongRelease, says: "shop/proxy:v1"},
		"another tag":                                    {given: aPause(), p: anApproval(image("shop/demo:v1")), want: api.RefusalWrongRelease, says: "shop/demo:v2"},
		"the step that is paused":                        {given: aPause(), p: anApproval(step(1)), says: "approved"},
		"a step to come":                                 {given: aPause(), p: anApproval(step(2)), want: api.RefusalWrongStep, says: "in step 1 of 3"},
		"the revision":                                   {given: aPause(), p: anApproval(named("", "v2")), says: "approved"},
		"the hash of the new pods":                       {given: aPause(), p: anApproval(named("", "hc")), says: "approved"},
		"a hash that somebody wrote into canaryStatus":   {given: aPause().With(func(g *given) { g.Status.CanaryStatus.PodTemplateHash = "hx" }), p: anApproval(named("", "hx")), want: api.RefusalWrongRelease},
		"another revision":                               {given: aPause(), p: anApproval(named("", "v1")), want: api.RefusalWrongRelease},
		"the rollout-id":                                 {given: aPause().With(withID), p: anApproval(named("v1.4.2", "")), says: "approved"},
		"the revision as rollout-id where there is none": {given: aPause(), p: anApproval(named("v2", "")), says: "approved"},
		"the revision as rollout-id where there is one":  {given: aPause().With(withID), p: anApproval(named("v2", "")), want: api.RefusalWrongRelease, says: "v1.4.2"},
		"a right rollout-id with a wrong revision":       {given: aPause().With(withID), p: anApproval(named("v1.4.2", "v3")), want: api.RefusalWrongRelease},
		"no release":                                     {given: aPause(), p: anApproval(named("", "")), want: api.RefusalMalformed},
		"a workload that has a newer template already":   {given: aPause().HeldAt("v3"), p: anApproval(), want: api.RefusalWrongRelease, says: "another template"},

		"no release under way":              {given: aRollout(), p: anApproval(), want: api.RefusalNotInProgress, says: "change the workload"},
		"a release that ends":               {given: aPause().Finalising(api.FinaliseRollback), p: anApproval(), want: api.RefusalNotInProgress},
		"a Rollout that is being deleted":   {given: aPause().Deleted(), p: anApproval(), want: api.RefusalNotInProgress},
		"a Rollout that is disabled":        {given: aPause().Disabled(), p: anApproval(), want: api.RefusalNotInProgress},
		"a workload that is gone":           {given: aPause().With(func(g *given) { g.Workload = nil }), p: anApproval(), want: api.RefusalNotInProgress},
		"a world that cannot be seen":       {given: aPause().With(func(g *given) { g.Problems = []rollout.Problem{{Unknown: true, Message: "Grant get on deployments."}} }), p: anApproval(), want: api.RefusalNotPaused, says: "Grant get on deployments. Then"},
		"a step whose pods are on the way":  {given: aPause().In(rollout.StateUpgrade), p: anApproval(), want: api.RefusalNotPaused, says: "wait for it to pause"},
		"a step that has been jumped from":  {given: aPause().Jumping(3), p: anApproval(), want: api.RefusalNotPaused},
		"steps that were edited":            {given: aPause().With(func(g *given) { g.Status.Sluice.PlanHash = "old" }), p: anApproval(), want: api.RefusalNotPaused},
		"a pause that is over by itself":    {given: aPause().Ready(), p: anApproval(), want: api.RefusalNotPaused},
		"one that came before the pause":    {given: aPause(), p: anApproval(arrived(-time.Second)), want: api.RefusalNotPaused, says: "before step 1 paused"},
		"one that came in with the pause":   {given: aPause(), p: anApproval(arrived(0)), says: "approved"},
		"one made long before":              {given: aPause(), p: anApproval(made(-time.Hour)), want: api.RefusalExpired},
		"one made a bit before, by a clock": {given: aPause(), p: anApproval(made(-time.Minute)), says: "approved"},
		"one made in the future":            {given: aPause(), p: anApproval(made(time.Hour)), want: api.RefusalMalformed, says: "in the future"},

		"a pause that is approved":                        {given: aPause().Decided(api.DecisionApprove, "/x", "9", "qa"), p: anApproval(), want: api.RefusalAlreadyDecided, says: "step 1 was approved by qa"},
		"a pause that is rejected":                        {given: aPause().Decided(api.DecisionReject, "/x", "9", "qa"), p: anApproval(), want: api.RefusalAlreadyDecided, says: "rejected by qa"},
		"an approved step that is being left":             {given: aPause().Decided(api.DecisionApprove, "/x", "9", "qa").Ready(), p: anApproval(), want: api.RefusalAlreadyDecided},
		"a step that was approved before":                 {given: aPause().Decided(api.DecisionApprove, "/x", "9", "qa").AtStep(2), p: anApproval(step(1)), want: api.RefusalAlreadyDecided},
		"one that came with that of the step before":      {given: aPause().Decided(api.DecisionApprove, "/x", "9", "qa").AtStep(2), p: anApproval(), want: api.RefusalAlreadyDecided},
		"one that came after that, too early":             {given: aPause().Decided(api.DecisionApprove, "/x", "9", "qa").AtStep(2), p: anApproval(arrived(90 * time.Minute)), want: api.RefusalNotPaused},
		"the same again":                                  {given: aPause().Decided(api.DecisionApprove, "/ci/demo", "1", "ci"), p: anApproval(), says: "step 1 was approved by ci"},
		"the same again, a day later in another step":     {given: aPause().Decided(api.DecisionApprove, "/ci/demo", "1", "ci").AtStep(2).Paused(), p: anApproval(arrived(24 * time.Hour)), says: "step 1 was approved by ci"},
		"the same again after the release":                {given: aRollout().Decided(api.DecisionApprove, "/ci/demo", "1", "ci"), p: anApproval(), says: "approved by ci"},
		"the same id of another sender":                   {given: aPause().Decided(api.DecisionApprove, "/ci/demo", "1", "qa").AtStep(2).Paused(), p: anApproval(), want: api.RefusalAlreadyDecided, says: "an id of its own"},
		"the pause that it was taken for":                 {given: aPause(), p: anApproval(bound(rollout.Pause{UID: "u", Epoch: 1, PauseSeq: 1, Step: 1})), says: "approved"},
		"an older pause that it was taken for":            {given: aPause(), p: anApproval(bound(rollout.Pause{UID: "u", Epoch: 1, PauseSeq: 0, Step: 1})), want: api.RefusalExpired},
		"the pause of a Rollout that was deleted":         {given: aPause(), p: anApproval(bound(rollout.Pause{UID: "t", Epoch: 1, PauseSeq: 1, Step: 1})), want: api.RefusalExpired},
		"an older pause that somebody else decided about": {given: aPause().Decided(api.DecisionReject, "/x", "9", "qa").With(func(g *given) { g.Status.Sluice.PauseSeq = 2 }), p: anApproval(bound(rollout.Pause{UID: "u", Epoch: 1, PauseSeq: 1, Step: 1})), want: api.RefusalAlreadyDecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := *tt.given.Status.DeepCopy()
			j := EvaluateApproval(tt.given.Seen, tt.p, tt.given.now)
			if j.Refusal != tt.want || !strings.Contains(j.Message, tt.says) || j.Message == "" {
				t.Errorf("refusal %q, want %q: %s", j.Refusal, tt.want, j.Message)
			}
			if diff := cmp.Diff(before, tt.given.Status); diff != "" {
				t.Errorf("what was seen has changed: %s", diff)
			}
			if wrote := j.Status != nil; wrote && (j.Refusal != "" || len(j.Status.Approvals) != len(before.Approvals)+1) {
				t.Errorf("refusal %q, and the approvals to write are %+v", j.Refusal, j.Status.Approvals)
			}
		})
	}
}

func TestAnAcceptedApprovalIsRecordedAndFollowed(t *testing.T) {
	t.Parallel()
	g := aPause()
	j := EvaluateApproval(g.Seen, anApproval(), g.now)
	want := api.Approval{
		Step: 1, Epoch: 1, PauseSeq: 1, Decision: api.DecisionApprove, Actor: "ci", Time: microTime(g.now), EventID: "1", Source: "/ci/demo",
		Revision: "v2", Comment: "e2e green",
	}
	if diff := cmp.Diff([]api.Approval{want}, j.Status.Approvals); diff != "" {
		t.Fatal(diff)
	}
	g.Status = *j.Status
	again := EvaluateApproval(g.Seen, anApproval(), g.now.Add(time.Hour))
	if again.Status != nil {
		t.Error("judged again, there is something to write")
	}
	j.Status = nil
	if diff := cmp.Diff(j, again); diff != "" {
		t.Errorf("judged again, the answer is another one: %s", diff)
	}
	d := Plan(g.Seen, g.now)
	if d.Status.Sluice.Step != 2 || len(d.Status.Approvals) != 1 {
		t.Errorf("step %d with approvals %+v", d.Status.Sluice.Step, d.Status.Approvals)
	}
	for _, tr := range d.Status.Sluice.Transitions {
		if tr.Reason == "Approved" && (tr.Actor != "ci" || tr.Message != "step 1 was approved by ci (e2e green)") {
			t.Errorf("the transition says %+v", tr)
		}
	}
	if got := EvaluateApproval(aPause().Seen, anApproval(), g.now); got.Status.Approvals[0].PauseSeq != got.Pause.PauseSeq {
		t.Errorf("it counts for pause %d and says %d", got.Status.Approvals[0].PauseSeq, got.Pause.PauseSeq)
	}
}

func TestARejectionHoldsTheReleaseInItsStep(t *testing.T) {
	t.Parallel()
	timed := func(g *given) { g.Spec.Steps[0].Manual = false }
	for name, tt := range map[string]struct {
		given *given
		want  rollout.State
		step  int32
	}{
		"it stays":                               {aPause(), rollout.StatePaused, 1},
		"a pause that would end by itself stays": {aPause().With(timed).With(func(g *given) { g.replan(); g.Status.Sluice.PlanHash = g.Spec.Hash }), rollout.StatePaused, 1},
		"kubectl overrules":                      {aPause().Approved(), rollout.StateBeforeUpgrade, 2},
		"a jump leaves it":                       {aPause().Jumping(3), rollout.StateBeforeUpgrade, 3},
		"a rollback ends it":                     {aPause().RolledBack(), rollout.StateFinalising, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := tt.given.Decided(api.DecisionReject, "/ci", "7", "qa").After(time.Hour)
			g.Status.Approvals[0].Comment = "error rate\nis up"
			o := g.outcome()
			if o.State != tt.want && tt.want != rollout.StateBeforeUpgrade || o.Step != tt.step {
				t.Errorf("it is in %s of step %d, want %s of step %d", o.State, o.Step, tt.want, tt.step)
			}
			if held := o.Stalled == rollout.ReasonRejected; held != (tt.want == rollout.StatePaused) {
				t.Errorf("held for %q: %s", o.Stalled, o.Message)
			}
			if tt.want == rollout.StatePaused && !strings.HasPrefix(o.Message, "step 1 was rejected by qa (error rate is up). To end the release") {
				t.Errorf("the message is %q", o.Message)
			}
		})
	}
}

func TestApproversThatComeTogetherApproveOneStep(t *testing.T) {
	t.Parallel()
	g := aPause()
	got := map[api.Refusal]int{}
	for n := range 20 {
		j := EvaluateApproval(g.Seen, anApproval(func(p *ApprovalRequest) { p.ID = string(rune('a' + n)) }), g.now)
		if got[j.Refusal]++; j.Status != nil {
			g.Status = *j.Status
			g.Status = Plan(g.Seen, g.now).Status
			g.AtStep(2).Paused()
		}
	}
	if diff := cmp.Diff(map[api.Refusal]int{"": 1, api.RefusalAlreadyDecided: 19}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheStatusKeepsTheLatestApprovals(t *testing.T) {
	t.Parallel()
	g := aPause()
	for range api.MaxApprovals {
		g.Decided(api.DecisionApprove, "/x", "9", "qa")
		g.Status.Approvals[len(g.Status.Approvals)-1].Epoch = 0
	}
	j := EvaluateApproval(g.Seen, anApproval(), g.now)
	if n := len(j.Status.Approvals); n != api.MaxApprovals || j.Status.Approvals[n-1].Actor != "ci" {
		t.Errorf("%d are kept, the last of %s", n, j.Status.Approvals[n-1].Actor)
	}
}

func TestSameImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		given, have string
		want        bool
	}{
		"the same text":                           {"r:5000/a/b:v1", "r:5000/a/b:v1", true},
		"a digest of one with tag and digest":     {digest, "a/b:v1@" + digest, true},
		"name and digest of one with tag as well": {"r:5000/a/b@" + digest, "r:5000/a/b:v1@" + digest, true},
		"another name with the same digest":       {"a/c@" + digest, "a/b@" + digest, false},
		"a registry's port is no tag":             {"r@" + digest, "r:5000/b@" + digest, false},
		"the name alone":                          {"a/b", "a/b:v1", false},
		"part of a digest":                        {digest[:20], "a/b@" + digest, false},
		"a tag for a digest":                      {"a/b:v1", "a/b:v1@" + digest, false},
		"a digest for a tag":                      {"a/b@" + digest, "a/b:v1", false},
		"a tag and a digest for another tag":      {"a/b:v2@" + digest, "a/b:v1@" + digest, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rollout.SameImage(tt.given, tt.have); got != tt.want {
				t.Errorf("%q and %q: %t", tt.given, tt.have, got)
			}
		})
	}
}

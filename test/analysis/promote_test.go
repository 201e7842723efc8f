package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

func TestAGoodVersionPromotesItself(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{success, worse}}
	p.release = p.use(t, "worse", "")
	auto := p.use(t, "success", ", autoPromote: true")
	p.steps = []string{
		"{replicas: 1, traffic: 20%, analysis: " + auto + "}", "{replicas: 100%, traffic: 60%, analysis: " + auto + "}",
	}
	a := start(t, p)
	a.deploy(t, "2")
	a.await(t, analysing(2))
	r := a.await(t, world.Healthy)
	if got := a.image(t); got != "app:2" {
		t.Errorf("%s runs", got)
	}
	if len(r.Status.Approvals) != 2 || r.Status.Approvals[0].Actor != "analysis" {
		t.Errorf("what promoted it is recorded as %+v", r.Status.Approvals)
	}
	a.wantRecorded(t, 1, api.OutcomeCompleted, "1 by analysis: Passed", "2 by analysis: Passed")
}

// wantRecorded checks in the RolloutHistory which actor ended each step of a release, and the last values of its
// metrics.
func (a *app) wantRecorded(t *testing.T, epoch int64, outcome api.HistoryOutcome, want ...string) {
	t.Helper()
	record := a.w.AwaitHistory(t, a.ns, "app", epoch, outcome)
	var got []string
	for _, s := range record.Status.Steps {
		got = append(got, fmt.Sprintf("%d by %s: %s", s.Step, s.ApprovedBy, s.Verdict))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record of release %d (-want +got):\n%s", epoch, diff)
	}
}

func TestABadVersionIsStopped(t *testing.T) {
	t.Parallel()
	for name, canary := range map[string]group{"by errors": {bad: 0.1}, "by latency": {slow: 0.2}, "by both": {bad: 0.1, slow: 0.2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan{templates: []string{worse}}
			p.release = p.use(t, "worse", "")
			p.steps = []string{"{replicas: 1, traffic: 20%}", "{replicas: 2, traffic: 60%}"}
			a := start(t, p)
			a.becomes(canary)
			a.deploy(t, "2")
			r := a.await(t, aborted)
			a.onStable(t)
			if !strings.Contains(r.Status.Message, "sluice retry app") || !strings.Contains(r.Status.Message, "worse than the stable group") {
				t.Errorf("the message is %q", r.Status.Message)
			}
			described := a.w.Do(t, "describe", "rollout", "app", "-n", a.ns)
			if !strings.Contains(described, "worse than the stable group") || !strings.Contains(described, "AnalysisFailed") {
				t.Errorf("kubectl describe does not say why it stopped:\n%s", described)
			}
		})
	}
}

// The analysis may need one interval of bad requests. Then the traffic is back in less than a second.
func TestAVersionThatTurnsBadDuringAPauseIsStopped(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{watch}}
	p.release = p.use(t, "watch", "")
	p.steps = []string{"{replicas: 1, traffic: 20%}"}
	a := start(t, p)
	a.deploy(t, "2")
	a.await(t, world.PausedAt(1))
	a.becomes(group{bad: 1})
	turned := time.Now()
	back := a.onStable(t)
	r := a.await(t, aborted)
	at := r.Status.Analysis.Release.Metrics[0].LastTime
	t.Logf("bad for %s until traffic was back; %s after the time that the failing measurement was due", back.Sub(turned).Round(time.Millisecond), back.Sub(at.Time).Round(time.Millisecond))
	a.w.AwaitObject(t, a.ns, "deployment", "app-canary", "to be gone", func(u *unstructured.Unstructured) bool { return u == nil })
}

// The rollback also removes the rollout-id of the version, so that the version is held when a tool applies it again.
func TestAFailureThatRollsBack(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{success}}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", onFailure: Rollback") + "}"}
	a := start(t, p)
	a.becomes(group{bad: 0.5})
	for epoch := int64(1); epoch <= 2; epoch++ {
		a.deployAs(t, "2", "r2")
		a.await(t, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.Sluice.Epoch == epoch })
		if got := a.image(t); got != "app:1" {
			t.Errorf("%s runs", got)
		}
		if id, is := a.w.Get(t, a.ns, "deployment", "app").GetAnnotations()[api.AnnotationRolloutID]; is {
			t.Errorf("the stable version has the rollout-id %s", id)
		}
		a.onStable(t)
	}
}

func TestAFailureThatAsksAPersonIsOverruledByForceOnly(t *testing.T) {
	t.Parallel()
	p := plan{templates: []string{success}}
	p.steps = []string{"{replicas: 1, traffic: 20%, analysis: " + p.use(t, "success", ", onFailure: Pause") + "}"}
	a := start(t, p)
	a.becomes(group{bad: 0.5})
	a.deploy(t, "2")
	a.await(t, world.HeldFor("AnalysisFailed"))
	a.w.Approve(t, a.ns, "app")
	a.await(t, func(r *api.Rollout) bool {
		return r.Status.CanaryStatus.CurrentStepState == api.StepPaused && len(r.Status.Approvals) == 0
	})
	r := a.await(t, world.HeldFor("AnalysisFailed"))
	a.command(t, r, api.CommandApprove)
	r = a.await(t, world.Healthy)
	if got := r.Status.Approvals; len(got) != 1 || !got[0].Forced {
		t.Errorf("recorded is %+v", got)
	}
}

// command writes a command as the CLI does.
func (a *app) command(t *testing.T, r *api.Rollout, action api.CommandAction) {
	t.Helper()
	user := strings.TrimSpace(a.w.Do(t, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
	body := fmt.Sprintf(`{"status":{"command":{"action":%q,"epoch":%d,"pauseSeq":%d,"actor":%q}}}`, action, r.Status.Sluice.Epoch, r.Status.Sluice.PauseSeq, user)
	if err := a.w.Patch(t, a.ns, "rollout", "app", body, "status"); err != nil {
		t.Fatal(err)
	}
}

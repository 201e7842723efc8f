package event_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/rollout"
)

func TestEachTransitionHasOneType(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		from, to rollout.State
		reason   string
		want     string
	}{
		"a release begins":                    {rollout.StateIdle, rollout.StateInitializing, "ReleaseStarted", "rollout.started"},
		"a step begins":                       {rollout.StateReady, rollout.StateBeforeUpgrade, "StepStarted", "step.started"},
		"somebody jumps":                      {rollout.StatePaused, rollout.StateBeforeUpgrade, "Jumped", "step.jumped"},
		"the plan was edited":                 {rollout.StatePaused, rollout.StateBeforeUpgrade, "PlanChanged", "step.restarted"},
		"pods are made":                       {rollout.StateBeforeUpgrade, rollout.StateUpgrade, "Upgrade", "step.upgrading"},
		"pods are ready":                      {rollout.StateUpgrade, rollout.StateTrafficRouting, "PodsReady", "step.upgraded"},
		"traffic is there":                    {rollout.StateTrafficRouting, rollout.StateAnalysis, "Routed", "traffic.routed"},
		"a step waits":                        {rollout.StateAnalysis, rollout.StatePaused, "NoAnalysis", "step.paused"},
		"a step was approved":                 {rollout.StatePaused, rollout.StateReady, "Approved", "step.approved"},
		"a pause is over":                     {rollout.StatePaused, rollout.StateReady, "PauseOver", "step.elapsed"},
		"the last step needs nobody":          {rollout.StatePaused, rollout.StateReady, "LastStep", "step.ready"},
		"all steps are done":                  {rollout.StateReady, rollout.StateCompleted, "StepsDone", "rollout.promoted"},
		"a good end begins":                   {rollout.StateCompleted, rollout.StateFinalising, "Success", "rollout.finalising"},
		"the workload is rolled back":         {rollout.StatePaused, rollout.StateFinalising, "Rollback", "rollout.canceling"},
		"the workload is gone":                {rollout.StatePaused, rollout.StateFinalising, "WorkloadDeleted", "rollout.canceling"},
		"a newer version comes":               {rollout.StatePaused, rollout.StateFinalising, "Continuous", "rollout.superseded"},
		"it goes back in batches":             {rollout.StatePaused, rollout.StateFinalising, "RollbackInBatch", "rollout.superseded"},
		"the Rollout is disabled on the way":  {rollout.StatePaused, rollout.StateFinalising, "RolloutDisabled", "rollout.withdrawn"},
		"the Rollout is deleted on the way":   {rollout.StatePaused, rollout.StateFinalising, "RolloutDeleting", "rollout.withdrawn"},
		"a fleet takes a version back":        {rollout.StateIdle, rollout.StateFinalising, "Withdrawn", "rollout.recalled"},
		"a withdrawn version is gone":         {rollout.StateFinalising, rollout.StateIdle, "Withdrawn", "rollout.canceled"},
		"metrics failed":                      {rollout.StateAnalysis, rollout.StateAborted, "AnalysisFailed", "rollout.aborted"},
		"a deadline has passed":               {rollout.StateUpgrade, rollout.StateAborted, "ProgressDeadlineExceeded", "rollout.expired"},
		"a deadline holds":                    {rollout.StateUpgrade, rollout.StateStalled, "ProgressDeadlineExceeded", "failure.raised"},
		"somebody aborts":                     {rollout.StatePaused, rollout.StateAborted, "Aborted", "rollout.stopped"},
		"it is tried again":                   {rollout.StateAborted, rollout.StateFinalising, "Retry", "rollout.retried"},
		"a step is measured well":             {rollout.StateAnalysis, rollout.StatePaused, "AnalysisPassed", "step.paused"},
		"the gateway has its own form back":   {rollout.StateFinalising, rollout.StateTrafficRestored, "Restored", "traffic.restored"},
		"a release has ended":                 {rollout.StateFinalising, rollout.StateIdle, "Completed", "rollout.completed"},
		"a release was called off":            {rollout.StateFinalising, rollout.StateIdle, "Canceled", "rollout.canceled"},
		"the Rollout is disabled":             {rollout.StateIdle, rollout.StateDisabled, "Disabled", "rollout.disabled"},
		"the Rollout is enabled":              {rollout.StateDisabled, rollout.StateIdle, "Enabled", "rollout.enabled"},
		"the Rollout is being deleted":        {rollout.StateIdle, rollout.StateTerminated, "Deleted", "rollout.deleted"},
		"a release is held":                   {rollout.StateUpgrade, rollout.StateStalled, "RouteUnsupported", "failure.raised"},
		"a release is held no longer":         {rollout.StateStalled, rollout.StateUpgrade, "RouteUnsupported", "failure.resolved"},
		"a Rollout at rest is held no longer": {rollout.StateStalled, rollout.StateIdle, "Completed", "failure.resolved"},
		"a later version has a new state":     {rollout.StateUpgrade, "Dreaming", "Tired", "rollout.changed"},
		"a later version has a new reason":    {rollout.StateUpgrade, rollout.StateIdle, "Tired", "rollout.changed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := event.KindOf(api.Transition{From: string(c.from), To: string(c.to), Reason: c.reason})
			if diff := cmp.Diff("dev.sluice."+c.want+".v1", got.Type()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryTypeIsListedOnceWithASentence(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range event.Vocabulary() {
		if seen[k.Type()] {
			t.Errorf("%s is listed twice", k.Type())
		}
		seen[k.Type()] = true
		if !strings.HasSuffix(k.When, ".") {
			t.Errorf("%s: %q is no sentence", k.Type(), k.When)
		}
	}
	if !seen[event.TypeDecided] {
		t.Errorf("%s is not listed", event.TypeDecided)
	}
}

// The test finds every transition of the planner in its source, so a new transition without an event fails it.
func TestTheWholeMachineHasWords(t *testing.T) {
	t.Parallel()
	calls := transitionsInSource(t)
	if len(calls) < 20 {
		t.Fatalf("only %d places make a transition, the search is wrong", len(calls))
	}
	for _, c := range calls {
		if got := event.KindOf(c.transition); got.Verb == "changed" {
			t.Errorf("%s: no type tells of the transition to %s with reason %q", c.where, c.transition.To, c.transition.Reason)
		}
	}
}

type call struct {
	where      string
	transition api.Transition
}

// transitionsInSource finds the calls of enterState, startFinalising, abortRelease and addRemark in the source of the planner.
func transitionsInSource(t *testing.T) (calls []call) {
	t.Helper()
	files, err := filepath.Glob("../planner/*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if transition, ok := read(c); ok {
					calls = append(calls, call{set.Position(c.Pos()).String(), transition})
				}
			}
			return true
		})
	}
	return calls
}

func read(c *ast.CallExpr) (t api.Transition, ok bool) {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) < 2 { // a method of another type has the same name
		return t, false
	}
	switch method.Sel.Name {
	case "enterState":
		t.To, t.Reason = constant(c.Args[0]), constant(c.Args[1])
		// A computed state, such as the state in startFinalising, is covered at the callers.
		return t, t.To != "" && t.Reason != ""
	case "startFinalising":
		t.To, t.Reason = string(rollout.StateFinalising), constant(c.Args[0])
		return t, true
	case "abortRelease":
		t.To, t.Reason = string(rollout.StateAborted), constant(c.Args[1])
		return t, true
	case "addRemark":
		t.From, t.To, t.Reason = constant(c.Args[0]), constant(c.Args[1]), "Any"
		return t, true
	}
	return t, false
}

// constant returns the value of a literal or of a named constant.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.Ident:
		return states()[e.Name]
	case *ast.SelectorExpr:
		if state := states()[e.Sel.Name]; state != "" {
			return state
		}
		return reasons()[e.Sel.Name]
	case *ast.CallExpr: // string(api.FinaliseSuccess), p.state()
		if len(e.Args) == 1 {
			return constant(e.Args[0])
		}
	}
	return ""
}

func states() map[string]string {
	return map[string]string{
		"StateIdle": string(rollout.StateIdle), "StateInitializing": string(rollout.StateInitializing), "StateBeforeUpgrade": string(rollout.StateBeforeUpgrade),
		"StateUpgrade": string(rollout.StateUpgrade), "StateTrafficRouting": string(rollout.StateTrafficRouting), "StateAnalysis": string(rollout.StateAnalysis),
		"StatePaused": string(rollout.StatePaused), "StateReady": string(rollout.StateReady), "StateCompleted": string(rollout.StateCompleted),
		"StateFinalising": string(rollout.StateFinalising), "StateDisabled": string(rollout.StateDisabled), "StateTerminated": string(rollout.StateTerminated),
		"StateAborted": string(rollout.StateAborted),
		"StateStalled": string(rollout.StateStalled), "StateTrafficRestored": string(rollout.StateTrafficRestored),
	}
}

func reasons() map[string]string {
	return map[string]string{
		"FinaliseSuccess": string(api.FinaliseSuccess), "FinaliseRollback": string(api.FinaliseRollback), "FinaliseContinuous": string(api.FinaliseContinuous),
		"FinaliseDisabled": string(api.FinaliseDisabled), "FinaliseDeleting": string(api.FinaliseDeleting), "FinaliseWorkloadGone": string(api.FinaliseWorkloadGone),
		"FinaliseRetry": string(api.FinaliseRetry), "FinaliseAborted": string(api.FinaliseAborted),
		"FinaliseRollbackInBatch": string(api.FinaliseRollbackInBatch), "FinaliseSuperseded": string(api.FinaliseSuperseded), "FinaliseWithdrawn": string(api.FinaliseWithdrawn),
	}
}

// The lists above must contain all constants of their kind.
func TestTheSearchKnowsEveryState(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"../rollout/state.go":  slices.Collect(maps.Keys(states())),
		"../api/finalising.go": slices.Collect(maps.Keys(reasons())),
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "State") && !isReason(spec) {
				return true
			}
			if !slices.Contains(want, spec.Names[0].Name) {
				t.Errorf("%s has %s, which the search for transitions does not know", file, spec.Names[0].Name)
			}
			return true
		})
	}
}

func isReason(spec *ast.ValueSpec) bool {
	kind, ok := spec.Type.(*ast.Ident)
	return ok && kind.Name == reflect.TypeFor[api.FinaliseReason]().Name()
}

package validate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

func TestTheAPIServerJudgesEveryObjectOfAHub(t *testing.T) {
	t.Parallel()
	s := start(t)
	var refusals []string
	for i, c := range FleetCases(t) {
		t.Run(c.File+"/"+c.Name, func(t *testing.T) {
			name := "" // a creation is a dry run, and keeps the name of the case
			if c.Old != nil {
				name = fmt.Sprintf("case-%d", i)
			}
			warnings, err := s.judge(t, c, name)
			s.check(t, c, warnings, err)
			if err != nil {
				refusals = append(refusals, err.Error())
			}
		})
	}
	t.Run("every rule of the schemas has a case that it refuses", func(t *testing.T) {
		if s.older {
			t.Skip("the rules are found by their words")
		}
		checkRules(t, hubRules(t), refusals)
	})
	t.Run("the largest plan is within the budget", s.checkLargestPlan)
	t.Run("a command to the largest fleet is within the budget", s.checkLargestFleet)
	t.Run("kubectl explains plans and shows releases", s.checkHubShown)
	t.Run("only the executor and the controllers of Kubernetes delete FleetTargets", s.checkTargetDeletion)
	t.Run("each role has the rights of its table", s.checkFleetRoles)
	t.Run("a verb counts for the object and the namespace that it is granted for", s.checkNarrowVerbs)
}

// hubRules returns the rules about what users write on a hub.
func hubRules(t *testing.T) []*regexp.Regexp {
	t.Helper()
	member, plan := schema(t, "sluice.dev_fleetmembers"), schema(t, "sluice.dev_fleetplans")
	rollout := schema(t, "sluice.dev_fleetrollouts")
	shared, own, command := plan.Properties["spec"], rollout.Properties["spec"], rollout.Properties["status"].Properties["command"]
	for field := range shared.Properties { // the cases of plans are about these fields
		delete(own.Properties, field)
	}
	key := member.Properties["spec"]
	rules := append(rulesOf("spec", &key), rulesOf("spec", &shared)...)
	rules = append(rules, rulesOf("spec", &own)...)
	rules = append(rules, rulesOf("command", &command)...)
	for _, rule := range append(member.XValidations, rollout.XValidations...) {
		rules = append(rules, regexp.MustCompile(regexp.QuoteMeta(rule.Message)))
	}
	if len(rules) < 65 {
		t.Errorf("the walk found %d rules only", len(rules))
	}
	return rules
}

// TestTheParserTakesEachPlanThatTheSchemaTakes checks that a plan in the API server never stalls a release by its shape.
func TestTheParserTakesEachPlanThatTheSchemaTakes(t *testing.T) {
	t.Parallel()
	parsed := 0
	for _, c := range FleetCases(t) {
		if c.Expect == Reject {
			continue
		}
		var strategy api.FleetStrategy
		switch object := decodeStrictly(t, c.Object).(type) {
		case *api.FleetPlan:
			strategy = object.Spec.FleetStrategy
		case *api.FleetRollout:
			strategy = object.Spec.FleetStrategy
		}
		if strategy.Waves == nil {
			continue
		}
		parsed++
		if _, err := fleet.Parse(strategy); err != nil {
			t.Errorf("%s/%s: %v", c.File, c.Name, err)
		}
	}
	if parsed < 10 {
		t.Errorf("only %d plans were parsed", parsed)
	}
}

// checkLargestPlan checks that a plan with the longest list of waves stays within the budget for expressions.
func (s server) checkLargestPlan(t *testing.T) {
	wave := `{"name":"%s%02d","percent":99,"maxConcurrency":"100%%","soak":"8759h59m59.999s","holdAt":{"step":1,"soak":"8759h59m59.999s"},
		"minCompleted":2147483647,"budgets":{"failed":"100%%","unreachable":"100%%","unknown":"100%%"},"spread":"` + strings.Repeat("k", 317) + `"}`
	var waves, images []string
	for i := range 24 {
		waves = append(waves, fmt.Sprintf(wave, strings.Repeat("w", 61), i))
	}
	for i := range 64 {
		images = append(images, fmt.Sprintf(`"%s%02d":"%s"`, strings.Repeat("c", 61), i, strings.Repeat("i", 1000)))
	}
	object := fmt.Sprintf(`{"apiVersion":"sluice.dev/v1alpha1","kind":"FleetRollout","metadata":{"name":"x"},"spec":{"waves":[%s],
		"release":{"version":"%s","images":{%s}}}}`, strings.Join(waves, ","), strings.Repeat("v", 253), strings.Join(images, ","))
	c := Case{Expect: Accept, Object: []byte(object)}
	said, err := s.judge(t, c, "largest")
	s.check(t, c, said, err)
}

// checkLargestFleet gives a command to a release over 3,500 clusters. Its status names each of them twice.
func (s server) checkLargestFleet(t *testing.T) {
	now := metav1.NowMicro()
	var status api.FleetRolloutStatus
	for w := range 7 {
		wave := api.FleetWaveStatus{Name: fmt.Sprint(w), Stage: api.FleetWaveGoing, Since: now, Began: now, DeliveryFrom: now}
		for n := range 500 {
			wave.Clusters = append(wave.Clusters, fmt.Sprintf("%s-%04d", strings.Repeat("c", 58), 500*w+n))
		}
		status.Waves = append(status.Waves, wave)
		status.Skipped = append(status.Skipped, wave.Clusters...)
	}
	text, err := json.Marshal(api.FleetRollout{
		TypeMeta: metav1.TypeMeta{APIVersion: api.FleetGroupVersion().String(), Kind: api.KindFleetRollout},
		Spec:     api.FleetRolloutSpec{Plan: "p"}, Status: status,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, decode(t, text, "crowded"))
	client := s.impersonate(t, rest.ImpersonationConfig{UserName: "kim", Groups: []string{"system:masters"}})
	_, err = client.Resource(api.FleetRolloutResource()).Namespace("default").Patch(t.Context(), "crowded", types.MergePatchType,
		[]byte(`{"status":{"command":{"action":"Pause","epoch":0,"actor":"kim"}}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Error(err)
	}
}

func (s server) checkHubShown(t *testing.T) {
	for path, want := range map[string]string{
		"fleetplans.spec.waves.maxConcurrency":    "How many clusters may be under way at once",
		"fleetrollouts.spec.waves.holdAt":         "All clusters of the wave stop at a step",
		"fleetrollouts.status.plan.waves.percent": "of those that are left when the wave begins",
		"fleetmembers.spec.cordoned":              "The cluster begins no release",
		"fleettargets.status.report.state":        "What the member does about that permit",
	} {
		out := s.kubectl(t, "explain", path, "--api-version", api.FleetGroupVersion().String())
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("kubectl explain %s does not say %q:\n%s", path, want, out)
		}
	}
	for kind, c := range map[string]struct {
		object string
		want   []string // the columns in front of the age
	}{
		"fm": {`{"kind":"FleetMember","metadata":{"name":"shown"},"spec":{"key":"U` + strings.Repeat("A", 55) + `","cordoned":{"reason":"upgrade"}},
			"status":{"phase":"Ready","version":"v0.3.0","enforcement":"Policy"}}`, []string{"shown", "Ready", "Policy", "v0.3.0", "upgrade"}},
		"fp": {`{"kind":"FleetPlan","metadata":{"name":"shown"},"spec":{"waves":[{"name":"canary","percent":1},{"name":"all"}]}}`, []string{"shown", "canary"}},
		"fro": {`{"kind":"FleetRollout","metadata":{"name":"shown"},"spec":{"plan":"shown"},"status":{"phase":"Soaking","wave":2,"message":"Waits",
			"release":{"version":"v2"},"counts":{"Completed":5,"Failed":1}}}`, []string{"shown", "Soaking", "v2", "2", "5", "1", "Waits"}},
		"ft": {`{"kind":"FleetTarget","metadata":{"name":"shown.eu1"},"spec":{"cluster":"eu1","permit":{"epoch":1,"seq":1,"verb":"Release"}},
			"status":{"phase":"AtHold","wave":2,"reason":"Held","report":{"state":"AtHold","step":3}}}`, []string{"shown.eu1", "eu1", "2", "AtHold", "Held", "3"}},
	} {
		object := decode(t, []byte(c.object), "")
		object.SetAPIVersion(api.FleetGroupVersion().String())
		s.create(t, object)
		got := strings.Fields(strings.ReplaceAll(s.kubectl(t, "get", kind, object.GetName(), "--no-headers"), "<none>", ""))
		if diff := cmp.Diff(c.want, got[:min(len(got), len(c.want))]); diff != "" {
			t.Errorf("kubectl get %s: %s", kind, diff)
		}
	}
}

func (s server) checkTargetDeletion(t *testing.T) {
	for _, c := range FleetCases(t) {
		if c.Name == "the executor creates a FleetTarget" {
			s.create(t, decode(t, c.Object, "kept"))
		}
	}
	const refusal = "the executor writes FleetTargets, and other users only read them"
	for name, c := range map[string]struct {
		user, group string
		refusal     string
	}{
		"a user":                              {"kim", "system:authenticated", refusal},
		"the watcher":                         {"system:serviceaccount:sluice-system:sluice-watcher", "system:serviceaccounts:sluice-system", refusal},
		"the executor":                        {api.DefaultInstallation().ExecutorUser(), "system:serviceaccounts:sluice-system", ""},
		"the garbage collector of Kubernetes": {"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts:kube-system", ""},
		"the controller manager":              {"system:kube-controller-manager", "system:authenticated", ""},
	} {
		targets := s.impersonate(t, rest.ImpersonationConfig{UserName: c.user, Groups: []string{"system:masters", c.group}}).
			Resource(api.FleetTargetResource()).Namespace("default")
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		t.Run(name, func(t *testing.T) { s.checkAnswer(t, targets.Delete(t.Context(), "kept", dry), c.refusal) })
		t.Run(name+", with a selector", func(t *testing.T) {
			s.checkAnswer(t, targets.DeleteCollection(t.Context(), dry, metav1.ListOptions{FieldSelector: "metadata.name=kept"}), c.refusal)
		})
	}
}

package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

// chronicle has the changes of both clusters of a fleet, written by a test.
type chronicle struct{ eu1, eu2 []change }

// add adds an object to a list of changes.
func (c chronicle) add(to []change, resource, name, object string) []change {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(object), &u.Object); err != nil {
		panic(err)
	}
	u.SetName(name)
	return append(slices.Clone(to), change{int64(len(c.eu1) + len(c.eu2)), resource, watch.Modified, u})
}

// hub adds a status of the FleetRollout of version v2, with a grant of epoch 10 to one cluster.
func (c chronicle) hub(seq int, verb, member, more string) chronicle {
	c.eu1 = c.add(c.eu1, "fleetrollouts", app, fmt.Sprintf(`{kind: FleetRollout, status: {epoch: 10, began: 10, verb: Release, release: {version: v2}, %s
		grant: {epoch: 10, seq: %d, verb: %s, clusters: [%s-run-1]}}}`, more, seq, verb, member))
	return c
}

func (c chronicle) permit(member string, seq int, verb string) chronicle {
	c.eu1 = c.add(c.eu1, "fleettargets", app+"."+member+"-run-1", fmt.Sprintf(`{kind: FleetTarget, spec: {cluster: %s-run-1, permit: %s}, status: {phase: Permitted}}`, member, permitText(seq, verb)))
	return c
}

func permitText(seq int, verb string) string {
	return fmt.Sprintf(`{epoch: 10, seq: %d, verb: %s, version: version/v2, revision: r2}`, seq, verb)
}

// member adds a status of a Rollout that is in a state, with the version v2 under way.
func (c chronicle) member(name, state string, step, release, seq int, more string) chronicle {
	object := fmt.Sprintf(`{kind: Rollout, status: {sluice: {state: %s, step: %d, epoch: %d, canaryRevision: r2}, fleet: {permit: %s, used: {epoch: 10, seq: %d, release: %d},
		releasing: {version: v2}, %s}}}`, state, step, release, permitText(seq, "Release"), seq, release, more)
	if name == "eu1" {
		c.eu1 = c.add(c.eu1, "rollouts", app, object)
	} else {
		c.eu2 = c.add(c.eu2, "rollouts", app, object)
	}
	return c
}

// pod adds a pod of version v2 to the first cluster.
func (c chronicle) pod(name string) chronicle {
	c.eu1 = c.add(c.eu1, "pods", name, `{kind: Pod, spec: {containers: [{image: "app:2"}]}}`)
	return c
}

const (
	nowServesV2 = `served: [{version: v2}]`
	servesV1    = `served: [{version: v1}]`
	secondWave  = `wave: 2, waves: [{name: canary, stage: Passed, clusters: [eu1-run-1]}, {name: rest, stage: Going}],`
	approvedOne = `approvals: [{epoch: 10, decision: approve}],`
)

func TestEachBrokenLawOfAFleetIsTold(t *testing.T) {
	t.Parallel()
	begun := chronicle{}.hub(1, "Release", "eu1", "").permit("eu1", 1, "Release").member("eu1", "StepUpgrade", 1, 2, 1, servesV1)
	whole := begun.pod("a").member("eu1", "Idle", 2, 2, 1, nowServesV2)
	cases := map[string]struct {
		of   chronicle
		want string
	}{
		"a cluster as it should be":                          {begun.pod("a"), ""},
		"a second wave as it should be":                      {whole.hub(2, "Release", "eu2", secondWave+approvedOne).permit("eu2", 2, "Release").member("eu2", "StepUpgrade", 1, 2, 2, servesV1), ""},
		"a grant that falls":                                 {begun.hub(0, "Release", "eu1", ""), "EpochAndSeqNeverFall"},
		"a permit that falls":                                {begun.hub(2, "Hold", "eu1", "").permit("eu1", 2, "Hold").permit("eu1", 1, "Release"), "EpochAndSeqNeverFall"},
		"a cluster that forgets a permit":                    {whole.hub(2, "Release", "eu1", "").permit("eu1", 2, "Release").member("eu1", "Idle", 0, 2, 2, nowServesV2).member("eu1", "Idle", 0, 2, 1, nowServesV2), "EpochAndSeqNeverFall"},
		"a grant before the last one was written":            {chronicle{}.hub(1, "Release", "eu1", "").hub(2, "Release", "eu2", ""), "GrantsKeepWithinLimits"},
		"a permit without a grant":                           {begun.permit("eu2", 1, "Release"), "GrantsKeepWithinLimits"},
		"a grant while another cluster is under way":         {begun.hub(2, "Release", "eu2", ""), "GrantsKeepWithinLimits"},
		"a wave that passes while its cluster is on its way": {begun.hub(2, "Release", "eu2", secondWave+approvedOne), "EachPassedWaveHasProof"},
		"a wave that passes without its approval":            {whole.hub(2, "Release", "eu2", secondWave), "EachPassedWaveHasProof"},
		"a grant of a withdrawn version":                     {whole.hub(2, "Release", "eu2", "blocked: [{version: version/v2, epoch: 10}],"), "BlockedVersionGetsNoPermit"},
		"a withdrawn version that runs":                      {begun.pod("a").hub(2, "Withdraw", "eu1", "phase: Withdrawn,"), "NothingWithdrawnRuns"},
		"a cluster that begins without a permit":             {begun.member("eu2", "StepUpgrade", 1, 2, 1, servesV1), "NothingBeyondThePermit"},
		"a pod too many":                                     {begun.pod("a").pod("b"), "NothingBeyondThePermit"},
		"a pod before the step":                              {chronicle{}.member("eu1", "Initializing", 1, 2, 1, servesV1).pod("a"), "NothingBeyondThePermit"},
		"two releases by one permit":                         {begun.member("eu1", "StepUpgrade", 1, 3, 1, servesV1), "PermitBeginsOneRelease"},
		"a step of a withdrawn version":                      {begun.member("eu1", "StepUpgrade", 2, 2, 1, servesV1+`, blocked: [{version: version/v2, epoch: 10}]`), "WithdrawnVersionStaysOut"},
		"another cluster that begins by its own permit":      {begun.member("eu1", "StepPaused", 1, 2, 1, servesV1), ""},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cases[name]
			if told := strings.Join(fleetBreaches(c.of.eu1, c.of.eu2), "\n"); c.want == "" && told != "" || !strings.Contains(told, c.want) {
				t.Errorf("told is %q, want %q", told, c.want)
			}
		})
	}
}

func TestEachActOfAFleetIsPlayedSomewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"hub PUT fleetrollouts/app/status", "hub POST fleettargets", "hub PUT fleetmembers/eu1/status", "NATS hub publish order", "NATS hub publish hint", "hub watches answers",
		"eu1 PUT rollouts/app/status", "eu2 PUT rollouts/app/status", "eu1 PATCH deployments/app", "NATS eu1 publish answer", "NATS eu2 publish answer", "NATS eu1 publish heartbeat", "eu1 watches orders",
	} {
		if !slices.ContainsFunc(fleetStories(), func(s fleetStory) bool { return s.plays(act{kind: kind}) }) {
			t.Errorf("no story plays %s", kind)
		}
		for _, w := range (act{kind: kind, nth: 1}).ways() {
			if p, err := parsePlan(plan{act{kind, 1}, w}.String()); err != nil || p.kind != kind {
				t.Errorf("the plan %s is read as %v, %v", plan{act{kind, 1}, w}, p, err)
			}
		}
	}
}

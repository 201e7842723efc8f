package workload_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
	cases "sluice.dev/sluice/test/hold"
)

func adopt(o workload.Object) workload.Patch  { return o.AdoptWorkload("web", rollout.StableIDKept) }
func hold(o workload.Object) workload.Patch   { return o.HoldWorkload("web") }
func resume(o workload.Object) workload.Patch { return o.ResumeWorkload(rollout.StableIDKept) }
func leave(o workload.Object) workload.Patch  { return o.ResumeHeld() }
func disown(o workload.Object) workload.Patch { return o.DisownWorkload() }

func partition(n int32, percent bool) func(workload.Object) workload.Patch {
	return func(o workload.Object) workload.Patch {
		return o.SetPartition(rollout.Amount{Value: n, Percent: percent})
	}
}

type patchCase struct {
	from  []change
	patch func(workload.Object) workload.Patch
	to    []change
}

// play puts a shape to a table.
func (s shape) play(t *testing.T, table map[string]patchCase) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := s.of(c.from...)
			before := from.DeepCopy()
			p := c.patch(workload.Object{Live: from})
			if diff := cmp.Diff(s.of(c.to...), merged(t, from, p)); diff != "" {
				t.Errorf("the workload differs (-want +got):\n%s", diff)
			}
			metadata, _ := p["metadata"].(map[string]any)
			if metadata["uid"] != "u1" || metadata["resourceVersion"] != "7" {
				t.Errorf("the precondition is %v", metadata)
			}
			if _, writes := p["spec"]; writes && cmp.Equal(s.of(c.from...).Object["spec"], s.of(c.to...).Object["spec"]) {
				t.Errorf("it writes a spec that nobody changes: %v", p["spec"])
			}
			if !cmp.Equal(before, from) {
				t.Error("what was looked at has changed")
			}
		})
	}
}

func TestPatchesOfWhatGoesByOrdinals(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]shape{"StatefulSet": statefulSet, "Advanced StatefulSet": advancedStatefulSet, "Advanced DaemonSet": advancedDaemonSet} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := func(text string) change { return strategy(`{type: RollingUpdate, rollingUpdate: ` + text + `}`) }
			standard := kept(`{maxUnavailable: 2}`)
			held := kept(`{maxUnavailable: 2, partition: 32767}`)
			rolling := kept(`{maxUnavailable: 2, partition: 4}`)
			was := func(text string) change { return original("partition", text) }
			released := func(partition string) change { return kept(`{maxUnavailable: 2, partition: ` + partition + `}`) }
			if s == advancedDaemonSet {
				released = func(partition string) change {
					return kept(`{maxUnavailable: 2, paused: false, partition: ` + partition + `}`)
				}
			}
			theirs := note("rollouts.kruise.io/in-progressing", `{"rolloutName":"other"}`)
			s.play(t, map[string]patchCase{
				"adopt a free one":                           {[]change{label("team", "a")}, adopt, []change{label("team", "a"), s.owned}},
				"adopt one with the marks of a dead Rollout": {[]change{note("sluice.dev/rollout", "dead")}, adopt, []change{s.owned}},
				"hold one without a partition":               {[]change{s.owned, standard}, hold, []change{s.owned, underWay, held, was("")}},
				"hold one with a partition of its owner's":   {[]change{s.owned, rolling}, hold, []change{s.owned, underWay, held, was("4")}},
				"hold one without a strategy":                {[]change{s.owned}, hold, []change{s.owned, underWay, strategy(`{rollingUpdate: {partition: 32767}}`), was("")}},
				"hold one that lost its mark keeps what is remembered": {[]change{s.owned, rolling, was("7"), original("type", "OnDelete")}, hold,
					[]change{s.owned, underWay, held, was("7"), original("type", "OnDelete")}},
				"hold one with an old memory of something else": {[]change{s.owned, standard, original("type", "OnDelete"), original("paused", "true")}, hold,
					[]change{s.owned, underWay, held, was("")}},
				"hold again keeps what is remembered":          {[]change{s.owned, underWay, rolling, was("3")}, hold, []change{s.owned, underWay, held, was("3")}},
				"hold again keeps the mark":                    {[]change{s.owned, theirs, held, was("3")}, hold, []change{s.owned, theirs, held, was("3")}},
				"hold again without a memory takes none of it": {[]change{s.owned, underWay, rolling}, hold, []change{s.owned, underWay, held, was("")}},
				"hold one of the type OnDelete": {[]change{s.owned, strategy(`{type: OnDelete}`)}, hold,
					[]change{s.owned, underWay, kept(`{partition: 32767}`), was(""), original("type", "OnDelete")}},
				"hold again one whose owner went over to OnDelete": {[]change{s.owned, underWay, strategy(`{type: OnDelete}`), was("3")}, hold,
					[]change{s.owned, underWay, kept(`{partition: 32767}`), was("3"), original("type", "OnDelete")}},
				"a number is a partition":                      {[]change{underWay, held}, partition(4, false), []change{underWay, released("4")}},
				"one that is paused stays paused":              {[]change{underWay, kept(`{paused: true, partition: 5}`)}, partition(4, false), []change{underWay, kept(`{paused: true, partition: 4}`)}},
				"a share is a number, rounded up":              {[]change{underWay, held}, partition(31, true), []change{underWay, released("4")}},
				"a share of all holds":                         {[]change{underWay, rolling}, partition(100, true), []change{underWay, released("32767")}},
				"none is left":                                 {[]change{underWay, held}, partition(0, false), []change{underWay, released("0")}},
				"resume one that had no partition":             {[]change{s.owned, underWay, held, was("")}, resume, []change{s.owned, standard}},
				"resume one that had the standard":             {[]change{s.owned, underWay, rolling, was("0")}, resume, []change{s.owned, standard}},
				"resume one that had nothing but the standard": {[]change{s.owned, underWay, kept(`{partition: 3}`), was("0")}, resume, []change{s.owned, kept(`{}`)}},
				"resume one that had one":                      {[]change{s.owned, underWay, held, was("4")}, resume, []change{s.owned, rolling}},
				"resume one that had no strategy":              {[]change{s.owned, underWay, strategy(`{rollingUpdate: {partition: 3}}`), was("")}, resume, []change{s.owned}},
				"resume one that remembers nothing":            {[]change{s.owned, underWay, held}, resume, []change{s.owned, standard}},
				"resume one that remembers nonsense": {[]change{s.owned, underWay, held, was("many"), original("type", "Never")},
					resume, []change{s.owned, standard}},
				"resume one whose owner came back from OnDelete":  {[]change{s.owned, underWay, held, was(""), original("type", "RollingUpdate")}, resume, []change{s.owned, standard}},
				"resume one that somebody has put to OnDelete":    {[]change{underWay, strategy(`{type: OnDelete}`), was(""), original("type", "RollingUpdate")}, resume, nil},
				"resume leaves what is empty without us":          {[]change{underWay, strategy(`{rollingUpdate: {}}`)}, resume, []change{strategy(`{rollingUpdate: {}}`)}},
				"resume one that lost its mark":                   {[]change{s.owned, held, was("4")}, resume, []change{s.owned, rolling}},
				"resume one with an old memory of something else": {[]change{s.owned, rolling, original("type", "OnDelete")}, resume, []change{s.owned, rolling}},
				"resume one that is not held":                     {[]change{s.owned, rolling}, resume, []change{s.owned, rolling}},
				"leave one where it has come to":                  {[]change{s.owned, underWay, rolling, was("")}, leave, []change{s.owned, rolling}},
				"leave one that had a partition":                  {[]change{s.owned, underWay, held, was("4")}, leave, []change{s.owned, held}},
				"disown one that is held":                         {[]change{label("team", "a"), s.owned, underWay, held, was("4")}, disown, []change{label("team", "a"), rolling}},
				"disown one that is at rest":                      {[]change{s.owned, rolling}, disown, []change{rolling}},
				"disown one without marks":                        {[]change{rolling}, disown, []change{rolling}},
			})
		})
	}
	wantsOnDelete := []change{underWay, strategy(`{type: RollingUpdate, rollingUpdate: {maxUnavailable: 2, partition: 32767}}`), original("partition", ""), original("type", "OnDelete")}
	statefulSet.play(t, map[string]patchCase{
		"the API takes no parameters beside OnDelete": {wantsOnDelete, resume, []change{strategy(`{type: OnDelete}`)}},
	})
	advancedDaemonSet.play(t, map[string]patchCase{
		"of an Advanced DaemonSet parameters stay beside OnDelete": {wantsOnDelete, resume, []change{strategy(`{type: OnDelete, rollingUpdate: {maxUnavailable: 2}}`)}},
	})
}

func TestPatchesOfACloneSet(t *testing.T) {
	t.Parallel()
	own := strategy(`{maxSurge: 1}`)
	held := strategy(`{maxSurge: 1, partition: "100%", paused: false}`)
	was := func(partition, paused string) change {
		return func(u *unstructured.Unstructured) { original("partition", partition)(u); original("paused", paused)(u) }
	}
	cloneSet.play(t, map[string]patchCase{
		"hold one that runs":               {[]change{cloneSet.owned, own}, hold, []change{cloneSet.owned, underWay, held, was("", "false")}},
		"hold one that its owner paused":   {[]change{cloneSet.owned, strategy(`{maxSurge: 1, partition: "30%", paused: true}`)}, hold, []change{cloneSet.owned, underWay, held, was("30%", "true")}},
		"hold again":                       {[]change{cloneSet.owned, underWay, strategy(`{maxSurge: 1, partition: 3, paused: true}`), was("30%", "false")}, hold, []change{cloneSet.owned, underWay, held, was("30%", "false")}},
		"hold one whose partition is null": {[]change{cloneSet.owned, strategy(`{maxSurge: 1, partition: null}`)}, hold, []change{cloneSet.owned, underWay, held, was("", "false")}},
		"a share is a partition":           {[]change{held}, partition(40, true), []change{strategy(`{maxSurge: 1, partition: "40%", paused: false}`)}},
		"a number is a partition":          {[]change{held}, partition(4, false), []change{strategy(`{maxSurge: 1, partition: 4, paused: false}`)}},
		"leave one where it has come to":   {[]change{cloneSet.owned, underWay, held, was("30%", "true")}, leave, []change{cloneSet.owned, strategy(`{maxSurge: 1, partition: "100%", paused: true}`)}},
		"resume one that had nothing":      {[]change{cloneSet.owned, underWay, held, was("", "false")}, resume, []change{cloneSet.owned, own}},
		"resume one that its owner paused": {[]change{cloneSet.owned, underWay, held, was("30%", "true")}, resume, []change{cloneSet.owned, strategy(`{maxSurge: 1, partition: "30%", paused: true}`)}},
		"resume one that had no strategy":  {[]change{underWay, strategy(`{partition: 2, paused: false}`), was("", "false")}, resume, nil},
		"disown one that is held":          {[]change{cloneSet.owned, underWay, held, was("4", "false")}, disown, []change{strategy(`{maxSurge: 1, partition: 4}`)}},
	})
}

func TestPatchesOfADaemonSet(t *testing.T) {
	t.Parallel()
	rolls := strategy(`{type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}`)
	held := strategy(`{type: OnDelete, rollingUpdate: {maxUnavailable: 2}}`)
	daemonSet.play(t, map[string]patchCase{
		"hold one that rolls":                     {[]change{daemonSet.owned, rolls}, hold, []change{daemonSet.owned, underWay, held, original("type", "RollingUpdate")}},
		"hold one of the type OnDelete":           {[]change{daemonSet.owned, held}, hold, []change{daemonSet.owned, underWay, held, original("type", "OnDelete")}},
		"hold again":                              {[]change{daemonSet.owned, underWay, rolls, original("type", "OnDelete")}, hold, []change{daemonSet.owned, underWay, held, original("type", "OnDelete")}},
		"a partition changes nothing":             {[]change{held}, partition(4, false), []change{held}},
		"resume leaves what the API sets":         {[]change{daemonSet.owned, underWay, held, original("type", "RollingUpdate")}, resume, []change{daemonSet.owned, strategy(`{rollingUpdate: {maxUnavailable: 2}}`)}},
		"resume one whose owner wants OnDelete":   {[]change{daemonSet.owned, underWay, held, original("type", "OnDelete")}, resume, []change{daemonSet.owned, held}},
		"disown one that is held":                 {[]change{daemonSet.owned, underWay, held, original("type", "RollingUpdate")}, disown, []change{strategy(`{rollingUpdate: {maxUnavailable: 2}}`)}},
		"disown one that is at rest and OnDelete": {[]change{daemonSet.owned, held}, disown, []change{held}},
	})
}

// The label is what such a kind is known by: without it the next Rollout would not know it.
func TestTheLabelOfWhatIsLikeAStatefulSetIsItsOwners(t *testing.T) {
	t.Parallel()
	likeAStatefulSet.play(t, map[string]patchCase{
		"adopt":  {nil, adopt, []change{note("sluice.dev/rollout", "web")}},
		"disown": {[]change{note("sluice.dev/rollout", "web")}, disown, nil},
		"hold": {nil, hold, []change{note("sluice.dev/rollout", "web"), underWay,
			strategy(`{rollingUpdate: {partition: 32767}}`), original("partition", "")}},
	})
	for _, p := range []workload.Patch{likeAStatefulSet.object().AdoptWorkload("web", rollout.StableIDKept), likeAStatefulSet.object().DisownWorkload()} {
		if labels, is := p["metadata"].(map[string]any)["labels"]; is {
			t.Errorf("the patch writes labels: %v", labels)
		}
	}
}

// The policies and HoldWorkload make the same object of a user's write, and ResumeWorkload restores the written one.
func TestHoldWritesWhatThePoliciesWrite(t *testing.T) {
	t.Parallel()
	const begins = "a new image is held in the same request"
	wishes := []string{
		begins,
		"a replace by a manifest that knows nothing of us is held and stays adopted",
		"in progress a replace by the same manifest changes nothing",
		"in progress another strategy is remembered and not in force",
		"in progress a wish for OnDelete is remembered and not in force",
		"a strategy that is remembered stays so when the same manifest comes again",
		"a new template brings another strategy, which is remembered",
		"while it rolls a replace by the same manifest changes nothing",
		"while it rolls a new template is held again",
	}
	played := map[string]bool{}
	for _, kind := range cases.Kinds(t) {
		for _, c := range kind.Cases {
			if c.Name == begins {
				got := merged(t, c.New, workload.Object{Live: c.New}.HoldWorkload("shop"))
				if diff := cmp.Diff(c.Want.Object["spec"], got.Object["spec"]); diff != "" {
					t.Errorf("%s: %s: Hold (+) writes otherwise than the policies (-):\n%s", kind.Name, c.Name, diff)
				}
				if diff := cmp.Diff(c.Want.GetAnnotations(), got.GetAnnotations()); diff != "" {
					t.Errorf("%s: %s: Hold (+) annotates otherwise than the policies (-):\n%s", kind.Name, c.Name, diff)
				}
			}
			if slices.Contains(wishes, c.Name) {
				played[c.Name] = true
				got := merged(t, c.Want, workload.Object{Live: c.Want}.ResumeWorkload(rollout.StableIDKept))
				if diff := cmp.Diff(plain(c.New), plain(got)); diff != "" {
					t.Errorf("%s: %s: Resume (+) does not lead to what was written (-):\n%s", kind.Name, c.Name, diff)
				}
			}
		}
	}
	if len(played) != len(wishes) {
		t.Errorf("of %d cases only these were met: %v", len(wishes), played)
	}
}

// plain is a spec without what means the same as nothing.
func plain(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	at := func(path ...string) []string { return append([]string{"spec", "updateStrategy"}, path...) }
	for _, standard := range []struct {
		value any
		path  []string
	}{
		{int64(0), at("partition")}, {int64(0), at("rollingUpdate", "partition")}, {false, at("paused")}, {false, at("rollingUpdate", "paused")}, {"RollingUpdate", at("type")},
		{map[string]any{}, at("rollingUpdate")}, {map[string]any{}, at()},
	} {
		if value, _, _ := unstructured.NestedFieldNoCopy(u.Object, standard.path...); cmp.Equal(value, standard.value) {
			unstructured.RemoveNestedField(u.Object, standard.path...)
		}
	}
	spec, _ := u.Object["spec"].(map[string]any)
	return spec
}

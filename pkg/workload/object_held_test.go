package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/rollout"
)

// held is how a workload is seen to be held.
type held struct {
	Parked, Paused, OwnerPaused, OnDelete bool
	Keeps                                 int32
	Partition                             rollout.Amount
}

type heldCase struct {
	changes []change
	want    held
}

func (s shape) heldAs(t *testing.T, table map[string]heldCase) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.object(c.changes...).ObserveWorkload("web")
			if diff := cmp.Diff(c.want, held{w.TakenOver, w.Paused, w.OwnerPaused, w.OwnerOnDelete, w.OwnerPartition, w.Partition}); diff != "" {
				t.Errorf("it is seen as (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHowAWorkloadIsHeldByItsPartition(t *testing.T) {
	t.Parallel()
	few, all := rollout.Amount{Value: 4}, rollout.Amount{Value: 32767}
	four, above := strategy(`{rollingUpdate: {partition: 4}}`), strategy(`{rollingUpdate: {partition: 32767}}`)
	was := func(text string) change { return original("partition", text) }
	none := func(u *unstructured.Unstructured) {
		set("0", "spec", "replicas")(u)
		set("0", "status", "desiredNumberScheduled")(u)
	}
	for name, s := range map[string]shape{
		"StatefulSet": statefulSet, "Advanced StatefulSet": advancedStatefulSet, "Advanced DaemonSet": advancedDaemonSet, "like a StatefulSet": likeAStatefulSet,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.heldAs(t, map[string]heldCase{
				"free":                            {nil, held{}},
				"by its owner":                    {[]change{four}, held{Keeps: 4, Partition: few}},
				"by its owner, all of it":         {[]change{above}, held{Keeps: 10, Partition: all}},
				"held":                            {[]change{underWay, above, was("4")}, held{Parked: true, Paused: true, Keeps: 4, Partition: all}},
				"held by as many as there are":    {[]change{underWay, strategy(`{rollingUpdate: {partition: 10}}`), was("")}, held{Parked: true, Paused: true, Partition: rollout.Amount{Value: 10}}},
				"in a step":                       {[]change{underWay, four, was("")}, held{Parked: true, Partition: few}},
				"held without pods":               {[]change{underWay, above, was(""), none}, held{Parked: true, Paused: true, Partition: all}},
				"in a step without pods":          {[]change{underWay, was(""), none}, held{Parked: true}},
				"marked, with nothing remembered": {[]change{underWay, four}, held{Partition: few}},
				"remembered without a mark":       {[]change{four, was("7"), original("type", "OnDelete")}, held{Parked: true, Keeps: 7, OnDelete: true, Partition: few}},
				"another memory":                  {[]change{four, original("type", "OnDelete")}, held{Keeps: 4, Partition: few}},
				"remembered nonsense":             {[]change{underWay, above, was("many")}, held{Parked: true, Paused: true, Partition: all}},
				"OnDelete":                        {[]change{strategy(`{type: OnDelete}`)}, held{OnDelete: true}},
				"its owner wants OnDelete":        {[]change{underWay, above, was(""), original("type", "OnDelete")}, held{Parked: true, Paused: true, OnDelete: true, Partition: all}},
				"its owner has gone to OnDelete":  {[]change{underWay, strategy(`{type: OnDelete}`), was("")}, held{Parked: true, OnDelete: true}},
			})
		})
	}
	paused := []change{strategy(`{rollingUpdate: {paused: true}}`)}
	advancedStatefulSet.heldAs(t, map[string]heldCase{"an Advanced StatefulSet that its owner pauses": {paused, held{Paused: true, OwnerPaused: true}}})
	advancedDaemonSet.heldAs(t, map[string]heldCase{"an Advanced DaemonSet that its owner pauses": {paused, held{Paused: true, OwnerPaused: true}}})
	statefulSet.heldAs(t, map[string]heldCase{"a StatefulSet knows no such pause": {paused, held{}}})
}

func TestHowACloneSetIsHeld(t *testing.T) {
	t.Parallel()
	all := rollout.Amount{Value: 100, Percent: true}
	above := strategy(`{partition: "100%", paused: false}`)
	was := func(text string) change { return original("partition", text) }
	cloneSet.heldAs(t, map[string]heldCase{
		"free":                                   {nil, held{}},
		"by its owner":                           {[]change{strategy(`{partition: "31%"}`)}, held{Keeps: 4, Partition: rollout.Amount{Value: 31, Percent: true}}},
		"by its owner, all but one":              {[]change{strategy(`{partition: "99%"}`)}, held{Keeps: 9, Partition: rollout.Amount{Value: 99, Percent: true}}},
		"by its owner, all of a single one":      {[]change{strategy(`{partition: "99%"}`), set("1", "spec", "replicas")}, held{Keeps: 1, Partition: rollout.Amount{Value: 99, Percent: true}}},
		"by its owner, all of it":                {[]change{strategy(`{partition: "100%"}`)}, held{Keeps: 10, Partition: all}},
		"by its owner, more than there are":      {[]change{strategy(`{partition: 50}`)}, held{Keeps: 10, Partition: rollout.Amount{Value: 50}}},
		"paused by its owner":                    {[]change{strategy(`{paused: true}`)}, held{Paused: true, OwnerPaused: true}},
		"held":                                   {[]change{underWay, above, was("3"), original("paused", "false")}, held{Parked: true, Paused: true, Keeps: 3, Partition: all}},
		"held, and paused before":                {[]change{underWay, above, was(""), original("paused", "true")}, held{Parked: true, Paused: true, OwnerPaused: true, Partition: all}},
		"in a step":                              {[]change{underWay, strategy(`{partition: "99%", paused: false}`), was("")}, held{Parked: true, Partition: rollout.Amount{Value: 99, Percent: true}}},
		"held without pods":                      {[]change{underWay, above, was(""), set("0", "spec", "replicas")}, held{Parked: true, Paused: true, Partition: all}},
		"marked, and paused without a memory":    {[]change{underWay, strategy(`{paused: true}`)}, held{Paused: true}},
		"its own type has nothing to do with it": {[]change{strategy(`{type: InPlaceIfPossible}`)}, held{}},
	})
}

func TestHowADaemonSetIsHeld(t *testing.T) {
	t.Parallel()
	still := strategy(`{type: OnDelete}`)
	daemonSet.heldAs(t, map[string]heldCase{
		"free":                             {[]change{strategy(`{type: RollingUpdate}`)}, held{}},
		"OnDelete":                         {[]change{still}, held{OnDelete: true}},
		"held":                             {[]change{underWay, still, original("type", "RollingUpdate")}, held{Parked: true, Paused: true}},
		"held, and OnDelete before":        {[]change{underWay, still, original("type", "OnDelete")}, held{Parked: true, Paused: true, OnDelete: true}},
		"held, and somebody let it go":     {[]change{underWay, original("type", "RollingUpdate")}, held{Parked: true}},
		"marked, and OnDelete by nobody":   {[]change{underWay, still}, held{Paused: true}},
		"a partition says nothing":         {[]change{underWay, strategy(`{rollingUpdate: {partition: 32767}}`)}, held{}},
		"remembered, but the mark is gone": {[]change{original("type", "OnDelete")}, held{Parked: true, OnDelete: true}},
	})
}

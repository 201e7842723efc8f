package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// The judge reads the audit logs of the hub and of all members after a story, and what pods existed. It decides by the invariants of docs/invariants.md. It asks
// no code of Sluice, except for the limits that a plan stands for.
//
// All clusters of a test run on one machine, so a write that caused another one was received earlier.

// evidence is what happened in the namespace of a story.
type evidence struct {
	// hub has the writes at the hub, and members those in each cluster, in the order in which they took effect.
	hub     []world.Write
	members map[string][]world.Write
	// pods has what a watch showed of the pods of each cluster.
	pods map[string][]podEvent
	// restored has the resource versions of FleetRollouts that a backup of the hub brought back.
	restored map[string]bool
	// skews says how far the clock of a cluster was behind.
	skews map[string]time.Duration
}

// judge is the state of a fleet after some of its writes.
type judge struct {
	evidence
	rollout *api.FleetRollout
	targets map[string]*api.FleetTarget
	// grants and permits are all that the hub has ever committed; permits by cluster.
	grants  map[api.PermitNumber]api.FleetGrant
	permits map[string]map[api.PermitNumber]api.FleetPermit
	states  map[string]*memberState
	// grantInDoubt: the last commit of the hub got no answer, as of a killed executor, so that the log does not show whether it took effect. permitInDoubt says
	// the same of the permit of a cluster.
	grantInDoubt  bool
	permitInDoubt map[string]bool
	// withdrawn says when a withdrawal of a version was answered, by cluster.
	withdrawn map[string]map[string]time.Time
	breaches  []string
}

// breachesOf returns a sentence for each breach of the invariants of fleets.
func breachesOf(e evidence) []string {
	j := &judge{
		evidence: e, targets: map[string]*api.FleetTarget{}, grants: map[api.PermitNumber]api.FleetGrant{},
		permits: map[string]map[api.PermitNumber]api.FleetPermit{}, states: map[string]*memberState{}, withdrawn: map[string]map[string]time.Time{}, permitInDoubt: map[string]bool{},
	}
	for cluster := range e.members {
		j.permits[cluster], j.withdrawn[cluster] = map[api.PermitNumber]api.FleetPermit{}, map[string]time.Time{}
		j.states[cluster] = &memberState{cluster: cluster, used: map[api.PermitNumber]use{}}
	}
	for _, w := range inTime(e) {
		if w.Unanswered() && w.cluster == "" {
			j.doubt(w.Write)
		}
		if w.Code >= 300 || w.Code == 0 {
			continue
		}
		switch {
		case w.cluster == "" && w.Resource == "fleetrollouts":
			j.takeFleetRollout(w.Write)
		case w.cluster == "" && w.Resource == "fleettargets":
			j.takeTarget(w.Write)
		case w.cluster != "" && w.Resource == "rollouts":
			j.takeRollout(j.states[w.cluster], w.Write)
		}
	}
	for cluster, events := range e.pods {
		j.judgePods(j.states[cluster], events)
	}
	return j.breaches
}

func (j *judge) doubt(w world.Write) {
	switch w.Resource {
	case "fleetrollouts":
		j.grantInDoubt = true
	case "fleettargets":
		j.permitInDoubt[w.Name[strings.LastIndex(w.Name, ".")+1:]] = true // FLEETROLLOUT.CLUSTER
	}
}

// clusterWrite is a write in one cluster, "" for the hub.
type clusterWrite struct {
	cluster string
	world.Write
}

// inTime merges the writes of all clusters. The writes of one cluster keep their order.
func inTime(e evidence) []clusterWrite {
	queues := map[string][]world.Write{"": e.hub}
	for cluster, writes := range e.members {
		queues[cluster] = writes
	}
	var all []clusterWrite
	for {
		next, found := "", false
		for cluster, writes := range queues {
			if len(writes) > 0 && (!found || writes[0].Received.Before(queues[next][0].Received)) {
				next, found = cluster, true
			}
		}
		if !found {
			return all
		}
		all = append(all, clusterWrite{next, queues[next][0]})
		queues[next] = queues[next][1:]
	}
}

func (j *judge) breach(w world.Write, invariant, format string, args ...any) {
	j.breachAt(w.Received, invariant, format, args...)
}

func (j *judge) breachAt(at time.Time, invariant, format string, args ...any) {
	j.breaches = append(j.breaches, fmt.Sprintf("%s %s: %s", at.Format("15:04:05.000"), invariant, fmt.Sprintf(format, args...)))
}

// decode reads an object of the audit log. It reports false for a deletion.
func decode(j *judge, w world.Write, into any) bool {
	if w.Object == nil {
		return false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object.Object, into); err != nil {
		j.breach(w, "Readable", "%s %s: %v", w.Resource, w.Name, err)
		return false
	}
	return true
}

// blocks reports whether a list blocks one of the names of a version.
func blocks(list []api.FleetBlock, keys ...string) bool {
	return slices.ContainsFunc(list, func(b api.FleetBlock) bool { return !b.Unblocked && slices.Contains(keys, b.Version) })
}

// imageTag returns the tag of the first image of a pod, which names the version in all stories.
func imageTag(pod *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	for i := len(image) - 1; i >= 0; i-- {
		if image[i] == ':' {
			return image[i+1:]
		}
	}
	return image
}

package crash

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
)

// endOf are the objects that are there after some changes, without what differs from run to run by nature.
func endOf(changes []change, namespace string) map[string]any {
	live := objects{}
	for _, c := range changes {
		if c.kind == watch.Deleted {
			delete(live, c.key())
		} else {
			live[c.key()] = c.object
		}
	}
	end := map[string]any{}
	for key, u := range live {
		if u.GetKind() == "EndpointSlice" {
			continue // the cluster's own controller decides how many there are
		}
		if u.GetKind() == "Pod" {
			key = anonymous(u) + ", batch " + u.GetLabels()[api.LabelRolloutBatchID]
		}
		end[key] = normal(u, namespace)
	}
	return end
}

// countsOf tells how often each object was made and taken away.
func countsOf(changes []change) map[string]string {
	made, gone := map[string]int{}, map[string]int{}
	for _, c := range changes {
		key := hashed().ReplaceAllString(c.key(), canary)
		switch c.object.GetKind() {
		case "EndpointSlice":
			continue
		case "Pod":
			key = anonymous(c.object)
		}
		switch c.kind {
		case watch.Added:
			made[key]++
		case watch.Deleted:
			gone[key]++
		}
	}
	counts := map[string]string{}
	for key := range maps.Keys(made) {
		counts[key] = fmt.Sprintf("made %d times, taken away %d times", made[key], gone[key])
	}
	return counts
}

// toldOf are the transitions that a release went through.
func toldOf(changes []change) []string {
	var told []string
	var last int64
	for _, c := range changes {
		if c.key() != "rollouts/"+app || c.kind == watch.Deleted {
			continue
		}
		m := (objects{c.key(): c.object}).rollout().Status.Sluice
		if m == nil {
			continue
		}
		for _, t := range m.Transitions {
			if t.Seq > last {
				told, last = append(told, fmt.Sprintf("%s -> %s, %s: %s", t.From, t.To, t.Reason, t.Message)), t.Seq
			}
		}
	}
	return told
}

// anonymous names a pod by its owner.
func anonymous(pod *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return "pods/of " + hashed().ReplaceAllString(owner.Name, canary)
	}
	return "pods/of nobody"
}

// hashed matches the name of the canary's ReplicaSet, in which the UID of the Rollout has a part.
func hashed() *regexp.Regexp { return regexp.MustCompile(canary + `-[0-9a-z]+`) }

// normal is what an object says but for names and times that the API server gave it.
func normal(u *unstructured.Unstructured, namespace string) any {
	object := map[string]any{"spec": u.Object["spec"], "labels": u.Object["metadata"].(map[string]any)["labels"], "annotations": u.Object["metadata"].(map[string]any)["annotations"],
		"finalizers": u.Object["metadata"].(map[string]any)["finalizers"], "owners": u.Object["metadata"].(map[string]any)["ownerReferences"]}
	switch u.GetKind() {
	case "Rollout":
		object["status"] = withoutShares(u)
	case "Pod":
		object["spec"] = nil // names of volumes, the node
		if labels, ok := object["labels"].(map[string]any); ok {
			labels = maps.Clone(labels)
			for _, key := range ownLabels() {
				delete(labels, key)
			}
			object["labels"] = labels
		}
	case "ReplicaSet":
		object["annotations"] = nil // its controller copies the Deployment's when it happens to look
	}
	return replaced(object, namespace)
}

// withoutShares is the status of a Rollout without the share of the traffic at each transition. A transition tells the share at the time of its commit. If the API
// server refuses a commit after the executor has carried out the actions, the next commit tells a later share.
func withoutShares(rollout *unstructured.Unstructured) any {
	whole := rollout.DeepCopy()
	transitions, _, _ := unstructured.NestedSlice(whole.Object, "status", "sluice", "transitions")
	for _, t := range transitions {
		if t, ok := t.(map[string]any); ok {
			delete(t, "traffic")
		}
	}
	if len(transitions) > 0 {
		_ = unstructured.SetNestedSlice(whole.Object, transitions, "status", "sluice", "transitions") // it was there
	}
	return whole.Object["status"]
}

// ownLabels are those that a controller gives each pod of its own. By the first one, pods of a DaemonSet that stayed differ from those that
// came back.
func ownLabels() []string {
	return []string{"pod-template-generation", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "apps.kruise.io/cloneset-instance-id"}
}

// unlike matches what no two runs have in common: times and UIDs.
func unlike() *regexp.Regexp {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
}

func replaced(value any, namespace string) any {
	pattern := unlike()
	var walk func(any) any
	walk = func(value any) any {
		switch v := value.(type) {
		case string:
			return pattern.ReplaceAllString(strings.ReplaceAll(v, namespace, "NAMESPACE"), "*")
		case []any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = walk(v[i])
			}
			return list
		case map[string]any:
			m := map[string]any{}
			for _, key := range slices.Collect(maps.Keys(v)) {
				if !ownAddress(key) && !countsWrites(key) {
					m[key] = walk(v[key])
				}
			}
			return m
		}
		return value
	}
	return walk(value)
}

// ownAddress are fields in which the API server gives each Service something of its own.
func ownAddress(key string) bool { return key == "clusterIP" || key == "clusterIPs" }

// countsWrites are fields that count writes to a workload: a Deployment in partition style is let go further whenever new pods are ready, and
// how many become ready at once depends on what else the machine does.
func countsWrites(key string) bool { return key == "observedWorkloadGeneration" }

// untold are objects without what the status of the Rollout tells of transitions, and of the grace after the last one.
func untold(end map[string]any) map[string]any {
	short := map[string]any{}
	for key, value := range end {
		switch v := value.(type) {
		case map[string]any:
			short[key] = untold(v)
		default:
			short[key] = value
		}
	}
	for _, key := range []string{"transitions", "transitionSeq", "graceFor", "graceUntil"} {
		delete(short, key)
	}
	return short
}

// lastChange is how the Rollout was changed last.
func lastChange(changes []change, namespace string) string {
	var last [2]any
	for _, c := range changes {
		if c.key() == "rollouts/"+app {
			last[0], last[1] = last[1], normal(c.object, namespace)
		}
	}
	return cmp.Diff(last[0], last[1])
}

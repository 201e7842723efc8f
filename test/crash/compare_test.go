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

// endOf returns the objects that exist after some changes. It leaves out parts that differ between any two runs.
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
			continue // the cluster's own controller decides their number
		}
		if u.GetKind() == "Pod" {
			key = anonymous(u) + ", batch " + u.GetLabels()[api.LabelRolloutBatchID]
		}
		end[key] = normal(u, namespace)
	}
	return end
}

// countsOf returns how often each object was created and deleted.
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

// toldOf returns the transitions of a release.
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

// hashed matches the name of the canary's ReplicaSet, which depends on the UID of the Rollout.
func hashed() *regexp.Regexp { return regexp.MustCompile(canary + `-[0-9a-z]+`) }

// normal returns the content of an object, except names and times from the API server.
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
		object["annotations"] = nil // its controller copies the Deployment's annotations at no fixed time
	}
	return replaced(object, namespace)
}

// withoutShares returns the status of a Rollout without the share of the traffic at each transition. A transition has
// the share at the time of its commit. If the API server refuses a commit after the executor has carried out the
// actions, the next commit has a later share.
func withoutShares(rollout *unstructured.Unstructured) any {
	whole := rollout.DeepCopy()
	transitions, _, _ := unstructured.NestedSlice(whole.Object, "status", "sluice", "transitions")
	for _, t := range transitions {
		if t, ok := t.(map[string]any); ok {
			delete(t, "traffic")
		}
	}
	if len(transitions) > 0 {
		_ = unstructured.SetNestedSlice(whole.Object, transitions, "status", "sluice", "transitions") // the list was there
	}
	return whole.Object["status"]
}

// ownLabels returns the labels that a controller gives each pod individually. By the first one, pods of a DaemonSet
// that stayed differ from pods that came back.
func ownLabels() []string {
	return []string{"pod-template-generation", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "apps.kruise.io/cloneset-instance-id"}
}

// unlike matches times and UIDs, which differ between any two runs.
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

// ownAddress reports whether the API server gives each Service its own value of a field.
func ownAddress(key string) bool { return key == "clusterIP" || key == "clusterIPs" }

// countsWrites reports whether a field counts writes to a workload. The executor lets a Deployment in partition style
// go further whenever new pods are ready. The number of pods that become ready at once depends on the load of the
// machine.
func countsWrites(key string) bool { return key == "observedWorkloadGeneration" }

// untold returns objects without two parts of the Rollout's status: the transitions, and the grace after the last one.
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

// lastChange returns the difference that the last change of the Rollout made.
func lastChange(changes []change, namespace string) string {
	var last [2]any
	for _, c := range changes {
		if c.key() == "rollouts/"+app {
			last[0], last[1] = last[1], normal(c.object, namespace)
		}
	}
	return cmp.Diff(last[0], last[1])
}

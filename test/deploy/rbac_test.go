package deploy

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// unused has rights to write that a plain release does not need, and the reason for granting them.
var unused = map[string]string{
	"create events.events.k8s.io":                      "the audit policy leaves events out",
	"patch events.events.k8s.io":                       "the audit policy leaves events out",
	"create tokenreviews.authentication.k8s.io":        "only the approval receiver asks, and it is off",
	"create subjectaccessreviews.authorization.k8s.io": "only the approval receiver asks, and it is off",
	"approve rollouts.rollouts.kruise.io":              "it is for users; the receiver asks the API server about it",
	"create controllerrevisions.apps":                  "for originals that are too large for an annotation",
	"delete controllerrevisions.apps":                  "for originals that are too large for an annotation",
	"patch replicasets.apps":                           "only blue-green releases, and an aborted one in partition style, write ReplicaSets",
	"delete replicasets.apps":                          "only a Deployment that is scaled to 0 during its release has one to delete",
	"patch horizontalpodautoscalers.autoscaling":       "only blue-green releases take autoscalers off",
	"patch scaledobjects.keda.sh":                      "only blue-green releases take autoscalers off",
	"delete rollouthistories.rollouts.kruise.io":       "only the eleventh release of a Rollout has a record to delete",
	"update httproutes.gateway.networking.k8s.io":      "test/gateway routes by it",
	"update grpcroutes.gateway.networking.k8s.io":      "test/gateway routes by it",
	"update tcproutes.gateway.networking.k8s.io":       "test/gateway routes by it",
	"update tlsroutes.gateway.networking.k8s.io":       "test/gateway routes by it",
	"create ingresses.networking.k8s.io":               "test/gateway routes by it",
	"update ingresses.networking.k8s.io":               "test/gateway routes by it",
	"delete ingresses.networking.k8s.io":               "test/gateway routes by it",
	"create configmaps":                                "only Ingresses of an ALB have orders",
	"update configmaps":                                "only Ingresses of an ALB have orders",
	"update ingressroutes.traefik.io":                  "test/gateway routes by it",
	"create traefikservices.traefik.io":                "test/gateway copies requests by it",
	"update traefikservices.traefik.io":                "test/gateway routes by it",
	"delete traefikservices.traefik.io":                "test/gateway copies requests by it",
	"create middlewares.traefik.io":                    "test/gateway changes headers by it",
	"update middlewares.traefik.io":                    "test/gateway changes headers by it",
	"delete middlewares.traefik.io":                    "test/gateway changes headers by it",
	"update apisixroutes.apisix.apache.org":            "test/gateway routes by it",
	"update trafficroutes.kuma.io":                     "test/gateway routes by it",
	"patch statefulsets.apps":                          "only a release of a StatefulSet patches one",
	"patch daemonsets.apps":                            "only a release of a DaemonSet patches one",
	"delete pods":                                      "only releases of other kinds than Deployment replace pods",
	"patch clonesets.apps.kruise.io":                   "only a release of a CloneSet patches one",
	"patch statefulsets.apps.kruise.io":                "only a release of an Advanced StatefulSet patches one",
	"patch daemonsets.apps.kruise.io":                  "only a release of an Advanced DaemonSet patches one",
	"patch rollouts/status.rollouts.kruise.io":         "a plain release measures nothing",
	"patch trafficroutings.rollouts.kruise.io":         "only a release that names a TrafficRouting asks for one",
	"update trafficroutings/status.rollouts.kruise.io": "only TrafficRoutings are told what has become of them",
	"create fleetmembers.sluice.dev":                   "for those who run the fleet",
	"update fleetmembers.sluice.dev":                   "for those who run the fleet",
	"patch fleetmembers.sluice.dev":                    "for those who run the fleet",
	"delete fleetmembers.sluice.dev":                   "for those who run the fleet",
	"create fleetplans.sluice.dev":                     "for users; the hub reads plans",
	"update fleetplans.sluice.dev":                     "for users; the hub reads plans",
	"patch fleetplans.sluice.dev":                      "for users; the hub reads plans",
	"delete fleetplans.sluice.dev":                     "for users; the hub reads plans",
	"use fleetplans.sluice.dev":                        "for users; the hub reads plans",
	"create fleetrollouts.sluice.dev":                  "for users, and for the finalizer of the hub",
	"update fleetrollouts.sluice.dev":                  "for users, and for the finalizer of the hub",
	"patch fleetrollouts.sluice.dev":                   "for users, and for the finalizer of the hub",
	"delete fleetrollouts.sluice.dev":                  "for users, and for the finalizer of the hub",
	"pause fleetrollouts.sluice.dev":                   "for users, and for the finalizer of the hub",
	"approve fleetrollouts.sluice.dev":                 "for users, and for the finalizer of the hub",
	"rollback fleetrollouts.sluice.dev":                "for users, and for the finalizer of the hub",
	"abort fleetrollouts.sluice.dev":                   "for users, and for the finalizer of the hub",
	"release fleetrollouts.sluice.dev":                 "for users and pipelines",
	"skip fleetrollouts.sluice.dev":                    "for users, and for the finalizer of the hub",
	"expedite fleetrollouts.sluice.dev":                "for users, and for the finalizer of the hub",
	"unblock fleetrollouts.sluice.dev":                 "for users, and for the finalizer of the hub",
	"patch fleetrollouts/status.sluice.dev":            "only a hub writes it, and commands of users",
	"update fleetrollouts/status.sluice.dev":           "only a hub writes it, and commands of users",
	"update fleetmembers/status.sluice.dev":            "only a hub writes it",
	"create fleettargets.sluice.dev":                   "only a hub writes them",
	"update fleettargets.sluice.dev":                   "only a hub writes them",
	"delete fleettargets.sluice.dev":                   "only a hub writes them",
	"override rollouts.rollouts.kruise.io":             "it is for users of a fleet",
}

// A whole release uses every granted right to write, and the API server refuses no request. Reads are not in the audit
// log: a missing right to read shows as a condition, or in the log of the watcher.
func TestAReleaseUsesTheRightsThatAreGrantedAndNoOthers(t *testing.T) {
	t.Parallel()
	w, log := loggedWorld(t)
	const walkthrough, blog = "default", "blog" // the Services of both select the pods of both
	w.Do(t, "create", "namespace", blog)
	for file, ns := range map[string]string{"istio-walkthrough/workload.yaml": walkthrough, "istio-walkthrough/virtualservice.yaml": walkthrough,
		"istio-walkthrough/rollout.yaml": walkthrough, "istio-blog/workload.yaml": blog, "istio-blog/gateway.yaml": blog, "istio-blog/rollout.yaml": blog} {
		w.Apply(t, ns, world.Seed(t, file))
	}
	releaseOf(t, w, walkthrough, "rollouts-demo", "workload-demo", 3)
	releaseOf(t, w, blog, "rollouts-demo", "nginx-deployment", 2)
	for _, ns := range []string{walkthrough, blog} {
		w.Do(t, "-n", ns, "delete", "rollout", "rollouts-demo", "--timeout=600s")
	}

	events, err := controlplane.Audit(w.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, e := range events {
		if !strings.HasPrefix(e.User, "system:serviceaccount:"+api.DefaultNamespace+":") {
			continue
		}
		if e.Code == 403 {
			t.Errorf("%s may not %s %s: %s", e.User, e.Verb, e.Resource, e.Message)
		}
		used[right(e.Verb, e.Group, e.Resource, e.Subresource)] = true
	}
	if text := log.String(); strings.Contains(strings.ToLower(text), "forbidden") {
		t.Errorf("a right is missing:\n%s", text)
	}
	for _, kind := range traffic.PolicyKinds() { // test/gateway copies some
		for _, verb := range []string{"create", "update", "delete"} {
			used[right(verb, kind.Group, resourceOf(kind).Resource, "")] = true
		}
	}
	var superfluous []string
	for _, granted := range rightsToWrite(t) {
		if !used[granted] && unused[granted] == "" {
			superfluous = append(superfluous, granted)
		}
	}
	if len(superfluous) > 0 {
		t.Errorf("granted and not used: %s", strings.Join(superfluous, ", "))
	}
}

func releaseOf(t *testing.T, w *world.World, ns, name, deployment string, steps int32) {
	t.Helper()
	w.Await(t, ns, name, func(r *api.Rollout) bool { return world.Healthy(r) && r.Status.CanaryStatus.StableRevision != "" })
	w.Do(t, "-n", ns, "rollout", "status", "deployment/"+deployment)
	w.Do(t, "-n", ns, "patch", "deployment", deployment, "-p", `{"spec":{"template":{"metadata":{"annotations":{"release":"next"}}}}}`)
	for step := range steps {
		w.Await(t, ns, name, world.PausedAt(step+1))
		w.Approve(t, ns, name)
	}
	w.Await(t, ns, name, world.Healthy)
}

// loggedWorld returns a separate cluster whose components write errors to a log.
func loggedWorld(t *testing.T) (*world.World, fmt.Stringer) {
	t.Helper()
	w := world.Bare(t, world.Options{})
	log := &text{}
	w.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.Begin(t, w.RunWatcher)
	w.Begin(t, w.Executor)
	return w, log
}

// text is a log that allows reads and writes at the same time.
type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func right(verb, group, resource, subresource string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	if group != "" {
		resource += "." + group
	}
	return verb + " " + resource
}

// rightsToWrite returns the rights beyond reading that the ClusterRoles of the base grant.
func rightsToWrite(t *testing.T) []string {
	t.Helper()
	list := map[string]bool{}
	for _, role := range clusterRoles(t) {
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					if verb != "get" && verb != "list" && verb != "watch" {
						list[right(verb, rule.APIGroups[0], resource, "")] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(list))
}

func clusterRoles(t *testing.T) []rbacv1.ClusterRole {
	t.Helper()
	var list []rbacv1.ClusterRole
	for _, object := range manifests(t) {
		if object["kind"] != "ClusterRole" && object["kind"] != "Role" {
			continue
		}
		body, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(body, &role); err != nil {
			t.Fatal(err)
		}
		list = append(list, role)
	}
	return list
}

func TestNoRoleReadsSecretsOrMayDoEverything(t *testing.T) {
	t.Parallel()
	roles := clusterRoles(t)
	if len(roles) < 5 {
		t.Fatalf("there are %d roles only", len(roles))
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, words := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
				if slices.Contains(words, "secrets") || slices.Contains(words, "*") || slices.Contains(words, "impersonate") || slices.Contains(words, "escalate") {
					t.Errorf("%s grants %v of %v in %v", role.Name, rule.Verbs, rule.Resources, rule.APIGroups)
				}
			}
		}
	}
}

func resourceOf(kind schema.GroupKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("v1"))
	return plural.GroupResource()
}

// Releases copy policies of some kinds and report policies of the others. All these kinds need rights.
func TestEachKindOfPolicyIsGranted(t *testing.T) {
	t.Parallel()
	granted := func(label string, of schema.GroupResource) []string {
		var verbs []string
		for _, role := range clusterRoles(t) {
			for _, rule := range role.Rules {
				if role.Labels[label] == "true" && slices.Contains(rule.APIGroups, of.Group) && slices.Contains(rule.Resources, of.Resource) {
					verbs = append(verbs, rule.Verbs...)
				}
			}
		}
		slices.Sort(verbs)
		return slices.Compact(verbs)
	}
	for _, kind := range traffic.PolicyKinds() {
		if diff := cmp.Diff([]string{"create", "delete", "get", "list", "update", "watch"}, granted("sluice.dev/aggregate-to-executor", resourceOf(kind))); diff != "" {
			t.Errorf("%s, to the executor (-want +got):\n%s", kind, diff)
		}
		if diff := cmp.Diff([]string{"get", "list", "watch"}, granted("sluice.dev/aggregate-to-watcher", resourceOf(kind))); diff != "" {
			t.Errorf("%s, to the watcher (-want +got):\n%s", kind, diff)
		}
	}
	for _, kind := range traffic.UncopiedKinds() {
		if diff := cmp.Diff([]string{"list"}, granted("sluice.dev/aggregate-to-executor", resourceOf(kind))); diff != "" {
			t.Errorf("%s, to the executor (-want +got):\n%s", kind, diff)
		}
	}
}

// A user grants rights for another gateway kind by a role with the right label. No installed object changes.
func TestAFurtherGatewayKindIsGrantedByOneMoreRole(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	const role = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: boats
  labels: {sluice.dev/aggregate-to-watcher: "true", sluice.dev/aggregate-to-executor: "true"}
rules:
- {apiGroups: [boats.example.com], resources: [ferries], verbs: [get, list, watch]}
`
	can := func(account string) string {
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"system:serviceaccount:%s:%s",
			"resourceAttributes":{"verb":"list","group":"boats.example.com","resource":"ferries"}}}`, api.DefaultNamespace, account)
		out, err := w.KubectlStdin(t.Context(), review, "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	accounts := []string{api.DefaultWatcher, api.DefaultExecutor}
	before := map[string]string{}
	for _, account := range accounts {
		before[account] = can(account)
	}
	w.Apply(t, "default", role)
	t.Cleanup(func() { _, _ = w.Kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrole", "boats") })
	after := map[string]string{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end) && (after[accounts[0]] != "true" || after[accounts[1]] != "true"); <-tick.C {
		for _, account := range accounts {
			after[account] = can(account)
		}
	}
	no, yes := map[string]string{}, map[string]string{}
	for _, account := range accounts {
		no[account], yes[account] = "false", "true"
	}
	if diff := cmp.Diff([]map[string]string{no, yes}, []map[string]string{before, after}); diff != "" {
		t.Errorf("who may (-want +got):\n%s", diff)
	}
}

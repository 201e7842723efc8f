package world_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/world"
)

const (
	canaryStyle    = `{apiVersion: apps/v1, kind: Deployment, name: app}, strategy: {canary: {enableExtraWorkloadForCanary: true, `
	partitionStyle = `{apiVersion: apps/v1, kind: Deployment, name: app}, strategy: {canary: {`
	blueGreenStyle = `{apiVersion: apps/v1, kind: Deployment, name: app}, strategy: {blueGreen: {`
	setStyle       = `{apiVersion: apps/v1, kind: StatefulSet, name: app}, strategy: {canary: {`
	cloneStyle     = `{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: app}, strategy: {canary: {`
	widenedStyle   = `{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: app}, strategy: {blueGreen: {`
	daemonStyle    = `{apiVersion: apps/v1, kind: DaemonSet, name: app}, strategy: {canary: {`
	advancedStyle  = `{apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: app}, strategy: {canary: {`
)

// exposed returns a Rollout of three steps for a workload, with a style and a status in flow style.
func exposed(t *testing.T, style, user, status string) world.Write {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := `{metadata: {name: app}, spec: {workloadRef: ` + style + `steps: [{replicas: 1, traffic: 20%}, {replicas: 50%, traffic: 50%}, {replicas: 3, matches: [{headers: [{name: canary, value: "yes"}]}]}],
		trafficRoutings: [{service: app, customNetworkRefs: [{apiVersion: networking.istio.io/v1, kind: VirtualService, name: app}]}]}}}, status: ` + status + `}`
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return world.Write{Verb: "update", User: user, Resource: "rollouts", Subresource: "status", Name: "app", Code: 200, Object: u}
}

// judged compares the breaches of writes with a wanted part. Without one, it wants no breach.
func judged(t *testing.T, writes []world.Write, want string) {
	t.Helper()
	got := strings.Join(world.Overexposed(writes), "\n")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("breaches are %q, want %q", got, want)
	}
}

func TestExposureAboveTheApprovedStepIsToldAndLawfulExposureIsNot(t *testing.T) {
	t.Parallel()
	at := func(step int, state string) world.Write {
		return exposed(t, canaryStyle, executor, fmt.Sprintf(`{sluice: {epoch: 1, step: %d, state: %s}, canaryStatus: {currentStepIndex: %d, currentStepState: %s, nextStepIndex: %d}}`, step, state, step, state, step+1))
	}
	user := func(status string) world.Write { return exposed(t, canaryStyle, "alice", status) }
	approve := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, canaryStatus: {currentStepIndex: 1, currentStepState: StepReady, nextStepIndex: 2}}`)
	jump := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused, nextStepIndex: 3}}`)
	nowhere := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused, nextStepIndex: 4}}`)
	promote := user(`{sluice: {epoch: 1, step: 1, state: StepPaused}, command: {action: Promote, epoch: 1, actor: alice}, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused, nextStepIndex: 2}}`)
	ended := exposed(t, canaryStyle, executor, `{sluice: {epoch: 1, step: 3, state: Finalising, finaliseReason: Success}}`)
	workload := wrote("alice", "create", "deployments", "app", map[string]any{"replicas": float64(4)})
	autoscaler := wrote("alice", "create", "horizontalpodautoscalers", "app", map[string]any{"maxReplicas": float64(8), "scaleTargetRef": map[string]any{"name": "app"}})
	canary := func(n float64) world.Write {
		w := wrote(executor, "update", "deployments", "app-canary", map[string]any{"replicas": n})
		labels := w.Object.GetLabels()
		labels["rollouts.kruise.io/canary-deployment"] = "app"
		w.Object.SetLabels(labels)
		return w
	}
	route := func(weight float64) world.Write {
		return wrote(executor, "update", "virtualservices", "app", map[string]any{"http": []any{map[string]any{"route": []any{
			map[string]any{"destination": map[string]any{"host": "app"}, "weight": 100 - weight},
			map[string]any{"destination": map[string]any{"host": "app-canary"}, "weight": weight},
		}}}})
	}
	rests, applied := exposed(t, canaryStyle, executor, `{sluice: {epoch: 1, step: 3, state: Idle}}`), user(`{}`)
	applied.Subresource = ""
	begun := exposed(t, canaryStyle, executor, `{sluice: {epoch: 2, step: 1, state: Initializing}}`)
	beside := exposed(t, canaryStyle, executor, `{sluice: {epoch: 1, step: 2, state: StepUpgrade}, approvals: [{epoch: 1, step: 1, decision: approve}]}`)
	beside.Name = "other"
	unanswered := at(2, "StepUpgrade")
	unanswered.Code, unanswered.Object = 504, nil
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"what the step allows":                                {[]world.Write{workload, at(1, "StepUpgrade"), canary(1), route(20), at(1, "StepPaused")}, ""},
		"a step that was approved":                            {[]world.Write{workload, at(1, "StepPaused"), approve, at(2, "StepUpgrade"), canary(2), route(50)}, ""},
		"a step that nobody approved":                         {[]world.Write{workload, at(1, "StepPaused"), at(2, "StepUpgrade")}, "step 1 of release 1 of Rollout app was passed without an approval"},
		"two steps for one approval":                          {[]world.Write{at(1, "StepPaused"), approve, at(3, "StepUpgrade")}, "step 2 of release 1"},
		"a jump":                                              {[]world.Write{workload, at(1, "StepPaused"), jump, at(3, "StepUpgrade"), canary(3)}, ""},
		"a jump before the first step":                        {[]world.Write{at(1, "Initializing"), jump, at(1, "StepPaused"), at(2, "StepUpgrade")}, "step 1 of release 1"},
		"a jump beyond the last step":                         {[]world.Write{at(1, "StepPaused"), nowhere, at(1, "StepPaused"), at(2, "StepUpgrade")}, "step 1 of release 1"},
		"a success before the last step":                      {[]world.Write{at(1, "StepPaused"), approve, ended}, "step 2 of release 1"},
		"a success that somebody asked for":                   {[]world.Write{at(1, "StepPaused"), promote, ended}, ""},
		"pods of a step to come":                              {[]world.Write{workload, at(1, "StepUpgrade"), canary(2)}, "the canary app-canary got 2 pods when Rollout app had come to a step of 1"},
		"pods of a workload that was scaled":                  {[]world.Write{workload, autoscaler, at(1, "StepPaused"), approve, at(2, "StepUpgrade"), canary(4)}, ""},
		"pods of a step that was committed without an answer": {[]world.Write{workload, at(1, "StepPaused"), approve, unanswered, canary(2), at(2, "StepTrafficRouting")}, ""},
		"pods of a step that turns out not to be committed":   {[]world.Write{workload, at(1, "StepPaused"), approve, unanswered, canary(2), at(1, "StepPaused")}, "got 2 pods"},
		"a canary before anything is committed":               {[]world.Write{workload, applied, canary(1)}, "the canary app-canary got 1 pods when Rollout app had come to no step"},
		"a canary before the next release is committed":       {[]world.Write{workload, at(1, "StepUpgrade"), promote, ended, rests, canary(1)}, "app-canary got 1 pods when Rollout app had come to no step"},
		"a canary of the next release":                        {[]world.Write{workload, at(1, "StepUpgrade"), promote, ended, rests, begun, canary(1)}, ""},
		"more of a canary than the next release is about":     {[]world.Write{workload, at(1, "StepUpgrade"), promote, ended, rests, begun, canary(2)}, "app-canary got 2 pods"},
		"a canary that a release has left":                    {[]world.Write{workload, at(1, "StepUpgrade"), canary(1), promote, ended, rests, canary(1)}, ""},
		"one made anew after it":                              {[]world.Write{workload, at(1, "StepUpgrade"), canary(1), promote, ended, rests, deleted(executor, "deployments", "app-canary"), canary(1)}, "no step"},
		"a canary of another Rollout of the workload":         {[]world.Write{workload, applied, beside, canary(2), route(50)}, ""},
		"one after a release of one's own":                    {[]world.Write{workload, at(1, "StepUpgrade"), promote, ended, rests, beside, canary(2), route(50)}, ""},
		"traffic before anything is committed":                {[]world.Write{workload, applied, route(1)}, "sends 1% to app-canary when Rollout app was at a step of 0%"},
		"traffic after a release":                             {[]world.Write{at(1, "StepUpgrade"), promote, ended, rests, route(1)}, "sends 1% to app-canary"},
		"traffic that is given back":                          {[]world.Write{applied, at(1, "StepUpgrade"), promote, ended, rests, route(0)}, ""},
		"traffic of a step to come, by an HTTPRoute":          {[]world.Write{workload, at(1, "StepTrafficRouting"), httpRoute(50)}, "httproutes/app sends 50% to app-canary when Rollout app was at a step of 20%"},
		"traffic of a step to come, by an Ingress":            {[]world.Write{workload, at(1, "StepTrafficRouting"), canaryIngress("50")}, "ingresses/app-canary sends 50% to app-canary when Rollout app was at a step of 20%"},
		"traffic of a step to come":                           {[]world.Write{workload, at(1, "StepTrafficRouting"), route(50)}, "sends 50% to app-canary when Rollout app was at a step of 20%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged(t, c.writes, c.want)
		})
	}
}

const daemonController = "system:serviceaccount:kube-system:daemon-set-controller"

// nearlyAll changes the second step of a Rollout to 99% of the pods.
func nearlyAll(t *testing.T, w world.Write) {
	t.Helper()
	style := "canary"
	if _, found, _ := unstructured.NestedMap(w.Object.Object, "spec", "strategy", "blueGreen"); found {
		style = "blueGreen"
	}
	steps, _, _ := unstructured.NestedSlice(w.Object.Object, "spec", "strategy", style, "steps")
	steps[1] = map[string]any{"replicas": "99%"}
	if err := unstructured.SetNestedSlice(w.Object.Object, steps, "spec", "strategy", style, "steps"); err != nil {
		t.Fatal(err)
	}
}

// object returns a write of an executor to the object app: a patch, or a deletion.
func object(t *testing.T, resource, text string) world.Write {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetName("app")
	return world.Write{Verb: "patch", User: executor, Resource: resource, Name: "app", Code: 200, Object: u}
}

func TestTrafficOfASubsetOfASharedServiceIsJudgedAsThatOfACanaryService(t *testing.T) {
	t.Parallel()
	const shared = canaryStyle + `disableGenerateCanaryService: true, `
	at := func(step int) world.Write {
		return exposed(t, shared, executor, fmt.Sprintf(`{sluice: {epoch: 1, step: %d, state: StepTrafficRouting}, approvals: [{epoch: 1, step: 1, decision: approve}, {epoch: 1, step: 2, decision: approve}]}`, step))
	}
	route := func(rule, subset string, weight int) world.Write {
		return object(t, "virtualservices", fmt.Sprintf(
			`{spec: {http: [{%sroute: [{destination: {host: app, subset: base}, weight: %d}, {destination: {host: app.shop.svc, subset: %s}, weight: %d}]}]}}`, rule, 100-weight, subset, weight))
	}
	all := object(t, "virtualservices", `{spec: {http: [{route: [{destination: {host: app, subset: canary}}]}]}}`)
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"the share of the step":               {[]world.Write{at(1), route("", "canary", 20)}, ""},
		"more than its share":                 {[]world.Write{at(1), route("", "canary", 21)}, "virtualservices/app sends 21% to the subset canary of app when Rollout app was at a step of 20%"},
		"all":                                 {[]world.Write{at(2), all}, "sends 100% to the subset canary of app"},
		"any before anything is committed":    {[]world.Write{exposed(t, shared, "alice", `{}`), route("", "canary", 1)}, "at a step of 0%"},
		"another subset":                      {[]world.Write{at(1), route("", "other", 50)}, ""},
		"requests that match what is named":   {[]world.Write{at(3), route(`match: [{headers: {canary: {exact: "yes"}}}], `, "canary", 100)}, ""},
		"requests that match something else":  {[]world.Write{at(3), route(`match: [{headers: {other: {exact: "yes"}}}], `, "canary", 100)}, "sends 100%"},
		"a subset of a Service with a canary": {[]world.Write{exposed(t, canaryStyle, executor, `{sluice: {epoch: 1, step: 1, state: StepTrafficRouting}}`), all}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged(t, c.writes, c.want)
		})
	}
}

// No user has approved any part of a change before a release of it is committed.
func TestAChangeIsNotLetGoBeforeItsReleaseIsCommitted(t *testing.T) {
	t.Parallel()
	rollout := func(status string) world.Write {
		w := exposed(t, partitionStyle, "alice", status)
		w.Subresource = ""
		return w
	}
	disabled := rollout(`{}`)
	if err := unstructured.SetNestedField(disabled.Object.Object, true, "spec", "disabled"); err != nil {
		t.Fatal(err)
	}
	waiting := rollout(`{}`)
	waiting.Name = "other"
	waiting.Object.SetName("other")
	deployment := func(user, marks, version string, paused bool) world.Write {
		w := object(t, "deployments", fmt.Sprintf(`{metadata: {annotations: {%s}}, spec: {replicas: 10, paused: %t, template: {spec: {image: %q}}}}`, marks, paused, version))
		w.User = user
		return w
	}
	const mark = `rollouts.kruise.io/in-progressing: "{}"`
	of := func(rollout string) string {
		return fmt.Sprintf(`rollouts.kruise.io/in-progressing: '{"rolloutName":%q}'`, rollout)
	}
	adopted, held := deployment(executor, "", "app:1", false), deployment("alice", mark, "app:2", true)
	ofApp, ofOther := deployment("alice", of("app"), "app:2", true), deployment("alice", of("other"), "app:2", true)
	free, reverted := deployment(executor, "", "app:2", false), deployment(executor, "", "app:1", false)
	pod := deleted(executor, "pods", "app-x2v4k")
	paused := exposed(t, partitionStyle, executor, `{sluice: {epoch: 1, step: 3, state: Completed}, approvals: [{epoch: 1, step: 1, decision: approve}, {epoch: 1, step: 2, decision: approve}]}`)
	rests := exposed(t, partitionStyle, executor, `{sluice: {epoch: 1, step: 3, state: Idle}}`)
	unanswered := rests
	unanswered.Code, unanswered.Object = 504, nil
	echo := free
	echo.User = "alice"
	daemons := exposed(t, daemonStyle, "alice", `{}`)
	onDelete := func(marks string) world.Write {
		return object(t, "daemonsets", fmt.Sprintf(`{metadata: {annotations: {%s}}, spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 4}}`, marks))
	}
	for name, c := range map[string]struct {
		writes []world.Write
		want   string
	}{
		"a change that is let go":                               {[]world.Write{rollout(`{}`), adopted, held, free}, executor + " let the held deployments/app go from 0 new pods to 10"},
		"one that was taken back":                               {[]world.Write{rollout(`{}`), adopted, held, reverted}, ""},
		"one of a Rollout that is disabled":                     {[]world.Write{rollout(`{}`), adopted, held, disabled, free}, ""},
		"one of a disabled Rollout for which another one waits": {[]world.Write{rollout(`{}`), waiting, adopted, ofApp, disabled, free}, ""},
		"one of another Rollout than the disabled one":          {[]world.Write{rollout(`{}`), waiting, adopted, ofOther, disabled, free}, executor + " let the held deployments/app go"},
		"one of a Rollout that somebody deletes":                {[]world.Write{rollout(`{}`), adopted, held, deleted("alice", "rollouts", "app"), free}, ""},
		"one of an owner who deletes his pods himself":          {[]world.Write{daemons, onDelete(mark), onDelete("")}, ""},
		"one whose release ended in a commit without an answer": {[]world.Write{rollout(`{}`), adopted, held, paused, unanswered, free, rests}, ""},
		"one that a user applies again":                         {[]world.Write{rollout(`{}`), adopted, held, paused, unanswered, free, echo, rests}, ""},
		"one that a user lets go":                               {[]world.Write{rollout(`{}`), adopted, held, paused, unanswered, echo, rests}, "alice let the held deployments/app go from 0 new pods to 10"},
		"one of which no release came in between":               {[]world.Write{rollout(`{}`), adopted, held, rests, unanswered, free, rests}, "from 0 new pods to 10"},
		"a pod that is deleted for a new one":                   {[]world.Write{daemons, pod}, "pod app-x2v4k of DaemonSet app was deleted when Rollout app had come to no step"},
		"a pod of another DaemonSet":                            {[]world.Write{daemons, deleted(executor, "pods", "app-other-x2v4k")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged(t, c.writes, c.want)
		})
	}
}

func TestALeverBeyondTheApprovedStepIsToldAndALawfulOneIsNot(t *testing.T) {
	t.Parallel()
	const (
		held      = `rollouts.kruise.io/in-progressing: "{}"`
		parked    = held + `, sluice.dev/original.maxSurge: 25%`
		matches   = "step 3, which names requests"
		returning = "a rollback in batches"
		half      = "step 2, which is of half of the pods"
		nearly    = "step 2, made one of nearly all of them"
	)
	// told returns a workload with annotations, a spec and a status, all in flow style.
	told := func(annotations, spec, status string) string {
		return fmt.Sprintf(`{metadata: {annotations: {%s}}, spec: {%s}, status: {%s}}`, annotations, spec, status)
	}
	budget := func(paused bool, unavailable, surge string) string {
		return told(parked, fmt.Sprintf("replicas: 10, paused: %t, strategy: {rollingUpdate: {maxUnavailable: %s, maxSurge: %s}}", paused, unavailable, surge), "")
	}
	partition := func(path, value string) string { return told(held, fmt.Sprintf(path, value), "") }
	const (
		ordinals = "replicas: 10, updateStrategy: {rollingUpdate: {partition: %s}}"
		share    = "replicas: 10, updateStrategy: {partition: %s}"
		surge    = "replicas: 20, paused: %t, strategy: {rollingUpdate: {maxUnavailable: 0%%, maxSurge: %s}}"
		nodes    = "desiredNumberScheduled: 4"
	)
	onDelete := object(t, "daemonsets", told(held, "updateStrategy: {type: OnDelete}", nodes))
	joined := func(n int) world.Write {
		w := object(t, "daemonsets", fmt.Sprintf("{status: {desiredNumberScheduled: %d}}", n))
		w.User, w.Subresource = daemonController, "status"
		return w
	}
	gone := func(pods ...string) (all []world.Write) {
		all = append(all, onDelete)
		for _, pod := range pods {
			all = append(all, deleted(executor, "pods", pod))
		}
		return all
	}
	set := func(hash string, replicas int) world.Write {
		return object(t, "replicasets", fmt.Sprintf(`{metadata: {labels: {pod-template-hash: %s}, ownerReferences: [{kind: Deployment, name: app}]}, spec: {replicas: %d}}`, hash, replicas))
	}
	promoted := []world.Write{
		exposed(t, partitionStyle, "alice", `{sluice: {epoch: 1, step: 1, state: StepPaused}, command: {action: Promote, epoch: 1, actor: alice}}`),
		exposed(t, partitionStyle, executor, `{sluice: {epoch: 1, step: 1, state: Finalising, finaliseReason: Success}, canaryStatus: {podTemplateHash: agreed}}`),
		exposed(t, partitionStyle, executor, `{sluice: {epoch: 2, step: 1, state: StepUpgrade, stableRevision: stable}}`),
	}
	route := func(header string) world.Write {
		return object(t, "virtualservices", fmt.Sprintf(`{spec: {http: [{match: [{headers: {%s: {exact: "yes"}}}], route: [{destination: {host: app-canary}}]}]}}`, header))
	}
	// tampered returns writes of a workload by an executor and by its owner.
	tampered := func(resource, before, after string) []world.Write {
		theirs := object(t, resource, after)
		theirs.User = "alice"
		return []world.Write{object(t, resource, before), theirs}
	}
	generation := func(n int, value string) string {
		return fmt.Sprintf(`{metadata: {generation: %d, annotations: {%s}}, spec: {%s}}`, n, held, fmt.Sprintf(ordinals, value))
	}
	// unshown returns writes of a StatefulSet: an executor gets no answer, then the owner applies it again unchanged.
	unshown := func(before, after string) []world.Write {
		lost := object(t, "statefulsets", after)
		lost.Code, lost.Object = 504, nil
		all := tampered("statefulsets", before, after)
		return []world.Write{all[0], lost, all[1]}
	}
	// letGo returns three writes to a CloneSet: it runs version old, a user wants version new, and an executor releases
	// the given version without limit.
	letGo := func(version string) []world.Write {
		const spec = "replicas: 4, template: {version: %s}, updateStrategy: {partition: %s}"
		before, asked := object(t, "clonesets", told("", fmt.Sprintf(spec, "old", "0"), "")), object(t, "clonesets", told(held, fmt.Sprintf(spec, "new", "100%"), ""))
		before.User, asked.User = "alice", "alice"
		return []world.Write{before, asked, object(t, "clonesets", told(held, fmt.Sprintf(spec, version, "0"), "updatedReplicas: 1"))}
	}
	one := func(resource, text string) []world.Write { return []world.Write{object(t, resource, text)} }
	for name, c := range map[string]struct {
		style string
		// state is the state of step 1, which has one pod; StepUpgrade by default.
		state  string
		writes []world.Write
		want   string
	}{
		"the partition of a StatefulSet":               {setStyle, "", one("statefulsets", partition(ordinals, "9")), ""},
		"one too low":                                  {setStyle, "", one("statefulsets", partition(ordinals, "8")), "statefulsets/app was let go as far as 2 new pods when Rollout app had come to a step of 1"},
		"none at all":                                  {setStyle, "", one("statefulsets", told(held, "replicas: 10", "")), "as far as 10 new pods"},
		"one too low, for pods that are new":           {setStyle, "", one("statefulsets", told(held, fmt.Sprintf(ordinals, "7"), "updatedReplicas: 3")), ""},
		"a step by which a version goes back":          {setStyle, returning, one("statefulsets", partition(ordinals, "0")), ""},
		"the end of a release":                         {setStyle, "Finalising", one("statefulsets", told("", "replicas: 10", "")), ""},
		"the end of a release in a step":               {setStyle, "", one("statefulsets", told("", "replicas: 10", "")), "as far as 10 new pods"},
		"the partition of a CloneSet":                  {cloneStyle, "", one("clonesets", partition(share, "90%")), ""},
		"one of a few percent too low":                 {cloneStyle, "", one("clonesets", partition(share, "80%")), "clonesets/app was let go as far as 2 new pods"},
		"one that is rounded up":                       {cloneStyle, "", one("clonesets", partition(share, "81%")), ""},
		"the partition of an Advanced DaemonSet":       {advancedStyle, "", one("daemonsets", told(held, "updateStrategy: {rollingUpdate: {partition: 3}}", nodes)), ""},
		"one too low for its nodes":                    {advancedStyle, "", one("daemonsets", told(held, "updateStrategy: {rollingUpdate: {partition: 2}}", nodes)), "as far as 2 new pods"},
		"as many pods of a DaemonSet as the step says": {daemonStyle, "", gone("app-a", "app-a", "other-b"), ""},
		"one more":                                                {daemonStyle, "", gone("app-a", "app-b"), "2 pods of DaemonSet app were deleted when Rollout app had come to a step of 1"},
		"one more, for that on a node that goes":                  {daemonStyle, "", slices.Concat(gone("app-a"), []world.Write{deleted(daemonController, "pods", "app-c")}, gone("app-b")), ""},
		"as many as its share of the nodes":                       {daemonStyle, half, gone("app-a", "app-b"), ""},
		"one more than its share":                                 {daemonStyle, half, gone("app-a", "app-b", "app-c"), "3 pods of DaemonSet app were deleted when Rollout app had come to a step of 2"},
		"its share of nodes that have joined":                     {daemonStyle, half, slices.Concat(gone("app-a", "app-b"), []world.Write{joined(6)}, gone("app-c")), ""},
		"more than its share of them":                             {daemonStyle, half, slices.Concat(gone("app-a", "app-b"), []world.Write{joined(6)}, gone("app-c", "app-d")), "4 pods of DaemonSet app were deleted when Rollout app had come to a step of 3"},
		"a share that leaves one":                                 {daemonStyle, nearly, gone("app-a", "app-b", "app-c"), ""},
		"a share of less than all that leaves none":               {daemonStyle, nearly, gone("app-a", "app-b", "app-c", "app-d"), "4 pods of DaemonSet app were deleted when Rollout app had come to a step of 3"},
		"a partition of nearly all that leaves none":              {setStyle, nearly, one("statefulsets", partition(ordinals, "0")), "as far as 10 new pods when Rollout app had come to a step of 9"},
		"a surge of nearly all":                                   {blueGreenStyle, nearly, one("deployments", budget(false, "0%", "10")), ""},
		"pods that go back":                                       {daemonStyle, "Aborted", gone("app-a", "app-b"), ""},
		"a DaemonSet that replaces its pods by itself":            {daemonStyle, "", one("daemonsets", told(held, "updateStrategy: {type: RollingUpdate}", nodes)), "as far as 4 new pods"},
		"the budget of a parked Deployment":                       {partitionStyle, "", one("deployments", budget(false, "19%", "0")), ""},
		"a budget too high":                                       {partitionStyle, "", one("deployments", budget(false, "20%", "0")), "deployments/app was let go as far as 2 new pods"},
		"a surge too high":                                        {partitionStyle, "", one("deployments", budget(false, "10%", "1")), "as far as 2 new pods"},
		"a budget of a paused one":                                {partitionStyle, "", one("deployments", budget(true, "20%", "3")), ""},
		"a Deployment that is not parked":                         {partitionStyle, "", one("deployments", told(held, "replicas: 10, strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}", "")), "as far as 10 new pods"},
		"a Deployment that runs free beside its canary":           {canaryStyle, "", one("deployments", told(held, "replicas: 10", "")), "as far as 10 new pods"},
		"a Deployment made anew that runs free":                   {canaryStyle, "", one("deployments", `{metadata: {uid: another}, spec: {replicas: 10}}`), ""},
		"a Deployment that is paused beside its canary":           {canaryStyle, "", one("deployments", told(held, "replicas: 10, paused: true", "")), ""},
		"a surge beside all stable pods":                          {blueGreenStyle, "", one("deployments", budget(false, "0%", "10%")), ""},
		"a surge too high beside them":                            {blueGreenStyle, "", one("deployments", budget(false, "0%", "11%")), "as far as 2 new pods"},
		"a surge too high of a paused one":                        {blueGreenStyle, "", one("deployments", budget(true, "0%", "2")), "as far as 2 new pods"},
		"a Deployment without a surge":                            {blueGreenStyle, "", one("deployments", told(parked, "replicas: 10, paused: true, strategy: {type: Recreate}", "")), ""},
		"a stable ReplicaSet that gets its pods back":             {blueGreenStyle, "", []world.Write{set("stable", 10)}, ""},
		"a ReplicaSet of another version that gets pods":          {blueGreenStyle, "", []world.Write{object(t, "deployments", budget(true, "0%", "1")), set("new", 2)}, "replicasets/app got 2 pods"},
		"a ReplicaSet of a version that was promoted":             {partitionStyle, "", append(slices.Clone(promoted), set("agreed", 4)), ""},
		"one of another version after it":                         {partitionStyle, "", append(slices.Clone(promoted), set("new", 4)), "replicasets/app got 4 pods"},
		"a ReplicaSet of another version that loses all":          {blueGreenStyle, "", []world.Write{set("new", 0)}, ""},
		"a version that goes back, of no pods yet":                {widenedStyle, "", letGo("old"), ""},
		"a version that does not go back":                         {widenedStyle, "", letGo("new"), "as far as 4 new pods"},
		"room in a CloneSet":                                      {widenedStyle, "", one("clonesets", told(held+`, sluice.dev/original.replicas: "10"`, "replicas: 11, updateStrategy: {partition: 10}", "")), ""},
		"too much room":                                           {widenedStyle, "", one("clonesets", told(held+`, sluice.dev/original.replicas: "10"`, "replicas: 12, updateStrategy: {partition: 10}", "")), "as far as 2 new pods"},
		"room for stable pods":                                    {widenedStyle, "", one("clonesets", told(held+`, sluice.dev/original.replicas: "10"`, "replicas: 12, updateStrategy: {partition: 100%}", "")), ""},
		"requests that match what a step names":                   {partitionStyle, matches, []world.Write{route("canary")}, ""},
		"requests that match something else":                      {partitionStyle, matches, []world.Write{route("other")}, "sends 100% to app-canary"},
		"requests that match where a step names a share":          {partitionStyle, "", []world.Write{route("canary")}, "sends 100% to app-canary"},
		"an owner's write that moves no partition":                {setStyle, "", tampered("statefulsets", partition(ordinals, "9"), partition(ordinals, "9")), ""},
		"one that moves it":                                       {setStyle, "", tampered("statefulsets", partition(ordinals, "9"), partition(ordinals, "8")), "alice let the held statefulsets/app go from 1 new pods to 2"},
		"one that shows what an executor wrote without an answer": {setStyle, "", unshown(partition(ordinals, "10"), partition(ordinals, "9")), ""},
		"one that shows what an executor should not have written": {setStyle, "", unshown(partition(ordinals, "10"), partition(ordinals, "8")), "as far as 2 new pods"},
		"one that lets go after it, by its generation":            {setStyle, "", unshown(generation(1, "10"), generation(3, "9")), "alice let the held statefulsets/app go from 0 new pods to 1"},
		"one that shows it, by its generation":                    {setStyle, "", unshown(generation(1, "10"), generation(2, "9")), ""},
		"one that takes the mark away":                            {setStyle, "", tampered("statefulsets", partition(ordinals, "9"), told("", "replicas: 10", "")), "to 10"},
		"one that raises a budget":                                {partitionStyle, "", tampered("deployments", budget(false, "10%", "0"), budget(false, "20%", "0")), "to 2"},
		"one that scales":                                         {cloneStyle, "", tampered("clonesets", partition(share, "90%"), told(held, "replicas: 20, updateStrategy: {partition: 90%}", "")), ""},
		"one that scales a surge, which is kept": {blueGreenStyle, "", append(tampered("deployments", budget(false, "0%", "10%"), told(parked, fmt.Sprintf(surge, false, "10%"), "")),
			one("deployments", told(parked, fmt.Sprintf(surge, true, "10%"), ""))...), ""},
		"one that scales a surge, which is raised": {blueGreenStyle, "", append(tampered("deployments", budget(false, "0%", "10%"), told(parked, fmt.Sprintf(surge, false, "10%"), "")),
			one("deployments", told(parked, fmt.Sprintf(surge, true, "15%"), ""))...), "as far as 3 new pods when Rollout app had come to a step of 2"},
		"a workload that its owner has made anew": {setStyle, "", tampered("statefulsets", partition(ordinals, "9"), `{metadata: {uid: another}, spec: {replicas: 10}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := fmt.Sprintf("{sluice: {epoch: 1, step: 1, stableRevision: stable, state: %s}}", cmp.Or(c.state, "StepUpgrade"))
			switch c.state {
			case returning:
				status = "{sluice: {epoch: 1, step: 1, state: StepUpgrade, rollbackReplicas: 3}}"
			case half, nearly:
				status = "{sluice: {epoch: 1, step: 2, stableRevision: stable, state: StepUpgrade}, approvals: [{epoch: 1, step: 1, decision: approve}]}"
			case matches:
				status = "{sluice: {epoch: 1, step: 3, state: StepTrafficRouting}, approvals: [{epoch: 1, step: 1, decision: approve}, {epoch: 1, step: 2, decision: approve}]}"
			}
			at := exposed(t, c.style, executor, status)
			if c.state == nearly {
				nearlyAll(t, at)
			}
			judged(t, append([]world.Write{at}, c.writes...), c.want)
		})
	}
}

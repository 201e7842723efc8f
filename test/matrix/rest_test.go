package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/planner"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// end is the state in which a cell must end.
type end struct {
	// phase of the Rollout, "" when it is gone.
	phase api.Phase
	// image of all pods of the workload, "" when the workload is gone.
	image string
	// succeeded is the status of the condition Succeeded, "" for any.
	succeeded string
	// over reports that the cell is over, because its namespace is gone.
	over bool
}

func healthy(image string) end { return end{phase: api.PhaseHealthy, image: image, succeeded: "True"} }
func canceled(image string) end {
	return end{phase: api.PhaseHealthy, image: image, succeeded: "False"}
}

// rests checks the end that all cells have in common.
func (c *cell) rests(e end) {
	c.Helper()
	if e.over {
		c.over = true
		return
	}
	if e.phase == "" {
		c.gone(api.RolloutResource(), "app")
	} else {
		r := c.await(string(e.phase)+" and at rest", func(r *api.Rollout) bool {
			return r.Status.Phase == e.phase && r.Status.Sluice.WakeAt == nil && r.Status.ObservedGeneration == r.Generation
		})
		if done := world.Condition(r, api.ConditionSucceeded); e.succeeded != "" && (done == nil || string(done.Status) != e.succeeded) {
			c.Errorf("the condition Succeeded is %+v, want %s", done, e.succeeded)
		}
		if *kill > 0 {
			c.quietly() // if an executor died before it recorded the end, the next one does so after a resync at the latest
		}
		c.recorded(r.Status.Sluice.Epoch)
	}
	if e.image == "" {
		c.gone(c.col.resource, "app")
		c.seen.await(c, "no pods", func(pods map[string][]string) bool { return len(pods) == 0 })
	} else {
		c.settled(e.image)
		c.seen.await(c, "pods of "+e.image+" only", func(pods map[string][]string) bool {
			return len(pods[e.image]) == c.replicas && (len(pods) == 1 || c.replicas == 0 && len(pods) == 0)
		})
	}
	c.quiet(e.phase != "")
	c.tidy(e)
}

// tidy checks that no object of Sluice is left, and that the owner's objects are as they were.
func (c *cell) tidy(e end) {
	c.Helper()
	for _, kind := range append(c.owned(), schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}) {
		list, err := c.client(kind).List(c.Context(), metav1.ListOptions{LabelSelector: api.LabelRolloutUID})
		if err != nil {
			c.Fatal(err)
		}
		for _, u := range list.Items {
			c.Errorf("%s %s is left over", kind.Resource, u.GetName())
		}
	}
	for resource, before := range c.before {
		if resource == c.col.resource.Resource && e.image == "" {
			continue
		}
		now := c.get(schema.GroupVersionResource{Group: before.GroupVersionKind().Group, Version: before.GroupVersionKind().Version, Resource: resource}, "app")
		if now == nil {
			c.Errorf("%s app is gone", resource)
			continue
		}
		adopted := e.phase == api.PhaseHealthy && resource == c.col.resource.Resource
		if diff := cmp.Diff(owners(before, false), owners(now, adopted)); diff != "" {
			c.Errorf("%s app (-before +after):\n%s", resource, diff)
		}
	}
}

// owners returns the part of an object that its owner decides. It leaves out template and replicas, which events
// change, and the marks of adoption on an adopted object.
func owners(u *unstructured.Unstructured, adopted bool) map[string]any {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	delete(spec, "template")
	delete(spec, "replicas")
	withoutDefault(spec, "updateStrategy", "rollingUpdate", "partition")
	withoutDefault(spec, "updateStrategy", "partition")
	withoutDefault(spec, "updateStrategy", "rollingUpdate", "paused")
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	for _, key := range []string{"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
		delete(annotations, key)
	}
	if adopted {
		delete(labels, api.LabelWorkloadType)
		delete(annotations, api.AnnotationRollout)
		delete(annotations, api.AnnotationStableRolloutID)
		delete(annotations, api.AnnotationDelivered)
	}
	if len(labels) == 0 {
		labels = nil
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return map[string]any{"spec": spec, "labels": labels, "annotations": annotations, "finalizers": u.GetFinalizers(), "owners": u.GetOwnerReferences()}
}

// withoutDefault removes a number that is 0, or a value that is false, which means the same as no value. It also removes
// the enclosing object if that becomes empty.
func withoutDefault(spec map[string]any, fields ...string) {
	if v, found, err := unstructured.NestedFieldNoCopy(spec, fields...); err == nil && found && (v == int64(0) || v == false) {
		unstructured.RemoveNestedField(spec, fields...)
	}
	around := fields[:len(fields)-1]
	if m, found, _ := unstructured.NestedMap(spec, around...); found && len(m) == 0 {
		unstructured.RemoveNestedField(spec, around...)
	}
}

// looks is the number of reconciliations that a cell forces at its end.
const looks = 3

// recorded waits until the history has the end of a release. Executors write the history in parallel with their runs.
func (c *cell) recorded(epoch int64) {
	c.Helper()
	if epoch == 0 {
		return
	}
	c.object(api.RolloutHistoryResource(), fmt.Sprintf("app-%d", epoch), "an outcome", func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		outcome, _, _ := unstructured.NestedString(u.Object, "status", "outcome")
		return outcome != ""
	})
}

// quiet checks that executors that reconcile again write nothing. The exception is the history of a release under way.
func (c *cell) quiet(over bool) {
	c.Helper()
	if c.col.style == "blueGreen" {
		c.object(c.col.resource, "app", "to stand still while it is held", func(u *unstructured.Unstructured) bool {
			if u == nil || u.GetAnnotations()[api.AnnotationInProgressing] == "" {
				return true
			}
			return number(u, "status", "observedGeneration") == u.GetGeneration()
		})
	}
	q, err := c.w.Connect(c.Context(), "event")
	if err != nil {
		c.Fatal(err)
	}
	defer q.Close()
	work := c.work()
	key := queue.Key{Cluster: c.w.Name, Namespace: c.ns, Name: "app"}
	c.look(q, work, key) // a run that is under way is part of the event
	if c.get(api.RolloutResource(), "app") != nil {
		c.await("its spec seen", func(r *api.Rollout) bool { return r.Status.ObservedGeneration == r.Generation })
	}
	written := c.looked(q, work, key, over)
	for range mercy() {
		if len(written) > 0 {
			written = c.looked(q, work, key, over)
		}
	}
	if c.onlyShown(written) {
		written = c.looked(q, work, key, over)
	}
	for _, w := range written {
		c.Errorf("at rest %s wrote %s %s %s %s (-before +after):\n%s", w.User, w.Verb, w.Resource, w.Subresource, w.Name, c.changed(w))
	}
}

// mercy returns how many writes executors may make before they write nothing. A killed executor leaves work for the
// next one.
func mercy() int {
	if *kill > 0 {
		return 5
	}
	return 0
}

// looked returns the writes of executors during several reconciliations.
func (c *cell) looked(q *queue.Queue, work jetstream.Stream, key queue.Key, over bool) []world.Write {
	c.Helper()
	calm := c.w.Journal(c.ns)
	for range looks {
		c.look(q, work, key)
	}
	writes, err := calm()
	if err != nil {
		c.Fatal(err)
	}
	return slices.DeleteFunc(writes, func(w world.Write) bool {
		return !over && w.Resource == api.RolloutHistoryResource().Resource || !strings.HasPrefix(w.User, "system:serviceaccount:"+api.DefaultNamespace+":")
	})
}

// onlyShown reports whether the writes only show what has happened: progress in the status, which may come seconds late,
// and labels of pods that their controller has just counted.
func (c *cell) onlyShown(written []world.Write) bool {
	c.Helper()
	for _, w := range written {
		if w.Resource == "pods" && w.Verb == "patch" {
			continue
		}
		before := c.earlier(w)
		if w.Resource != api.RolloutResource().Resource || w.Subresource != "status" || before == nil || w.Object == nil {
			return false
		}
		if !planner.OnlyProgress(c.rollout(before).Status, c.rollout(w.Object).Status) {
			return false
		}
	}
	return len(written) > 0
}

// changed returns the difference that a write made, compared with the write before it.
func (c *cell) changed(w world.Write) string {
	c.Helper()
	before := c.earlier(w)
	if before == nil || w.Object == nil {
		return "all of it"
	}
	return cmp.Diff(before.Object["status"], w.Object.Object["status"]) + cmp.Diff(before.Object["spec"], w.Object.Object["spec"])
}

// earlier returns the object as the write before left it, nil if there was no earlier write.
func (c *cell) earlier(w world.Write) (before *unstructured.Unstructured) {
	c.Helper()
	writes, err := c.writes()
	if err != nil {
		c.Fatal(err)
	}
	for _, other := range writes {
		if other.Resource == w.Resource && other.Name == w.Name && other.Version < w.Version && other.Object != nil {
			before = other.Object
		}
	}
	return before
}

// quietly waits until executors have reconciled the current state. It accepts any write of theirs.
func (c *cell) quietly() {
	c.Helper()
	q, err := c.w.Connect(c.Context(), "event")
	if err != nil {
		c.Fatal(err)
	}
	defer q.Close()
	key := queue.Key{Cluster: c.w.Name, Namespace: c.ns, Name: "app"}
	c.look(q, c.work(), key)
}

// look makes an executor reconcile, and waits until it has done so.
func (c *cell) look(q *queue.Queue, work jetstream.Stream, key queue.Key) {
	c.Helper()
	if err := q.PublishHint(c.Context(), key); err != nil {
		c.Fatal(err)
	}
	c.done(work, key)
}

// work is the stream of the hints.
func (c *cell) work() jetstream.Stream {
	c.Helper()
	stream, err := c.w.JetStream(c).Stream(c.Context(), queue.StreamWork)
	if err != nil {
		c.Fatal(err)
	}
	return stream
}

// done waits until every hint is answered. An executor acknowledges a hint after it has reconciled and written, or has
// failed and set a timer.
func (c *cell) done(work jetstream.Stream, key queue.Key) {
	c.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last *jetstream.RawStreamMsg
	for {
		hint, err := work.GetLastMsgForSubject(c.bound, key.WorkSubject())
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		if err != nil {
			c.Fatalf("wait until the hints of %s are answered: %v; the last is %s; consumers:%s", key, err, sent(last), consumers(c.Context(), work))
		}
		last = hint
		<-tick.C
	}
}

func sent(hint *jetstream.RawStreamMsg) string {
	if hint == nil {
		return "not known"
	}
	return fmt.Sprintf("number %d, of %s", hint.Sequence, hint.Time.Format(time.TimeOnly))
}

// consumers describes the consumers of the hints and their pending messages.
func consumers(ctx context.Context, work jetstream.Stream) (list string) {
	infos := work.ListConsumers(ctx)
	for info := range infos.Info() {
		list += fmt.Sprintf(" %s: %d to come, %d not answered, %d delivered again;", info.Name, info.NumPending, info.NumAckPending, info.NumRedelivered)
	}
	return list
}

// lawful checks the cell against the audit log.
func (c *cell) lawful() {
	c.Helper()
	writes, err := c.writes()
	if err != nil {
		c.Fatal(err)
	}
	world.RecordWrites(c, c.ns, writes)
	breaches := world.Breaches(writes)
	if c.over {
		breaches = nil // the audit log does not have the deletions inside a terminating namespace
	}
	for _, breach := range breaches {
		c.Errorf("law broken: %s", breach)
	}
	for _, breach := range world.Overexposed(writes) {
		c.Errorf("exposure above the approved step, by the audit log: %s", breach)
	}
	for _, breach := range world.StableServes(writes) {
		c.Errorf("requests that nobody answers, by the audit log: %s", breach)
	}
	world.Tell(c, writes)
}

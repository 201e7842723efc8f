package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/world"
)

// parts are the components of Sluice in a world, which a test stops and starts.
type parts struct {
	*testing.T
	w    *world.World
	stop []func()
}

func (p *parts) start(all ...func(context.Context) (func(), error)) {
	p.Helper()
	for _, part := range all {
		stop, err := part(context.WithoutCancel(p.Context()))
		if err != nil {
			p.Fatal(err)
		}
		p.stop = append(p.stop, stop)
	}
}

// halt stops the last n started components.
func (p *parts) halt(n int) {
	for ; n > 0; n-- {
		p.stop[len(p.stop)-1]()
		p.stop = p.stop[:len(p.stop)-1]
	}
}

// cut removes an object by force; gone removes its namespace.
func (m *mesh) cut(s *shop, kind string) {
	m.Helper()
	m.w.Do(m.T, "-n", s.ns, "delete", kind, "web", "--wait=false", "--ignore-not-found")
	m.w.Do(m.T, "-n", s.ns, "patch", kind, "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

func (m *mesh) gone(s *shop) {
	m.Helper()
	m.w.Do(m.T, "delete", "namespace", s.ns, "--ignore-not-found", "--timeout=600s")
}

// awaitShares waits until the canaries of both releases have these shares.
func (m *mesh) awaitShares(one, two int) {
	m.Helper()
	m.w.AwaitObject(m.T, "", "trafficroute", m.name, fmt.Sprintf("with the shares %d and %d", one, two), func(u *unstructured.Unstructured) bool {
		return m.shares(m.text(u)) == [2]int{one, two}
	})
}

// A user removes a Rollout by force while it routes by an object without a namespace. Its share stays as long as the
// Rollout can be created again. When its namespace goes, before or after, the executor removes the share. Another
// release on the object stays. An executor that starts later sees the change as well, even if no Rollout names the kind
// any more.
func TestWhatIsAbandonedOnAnObjectOfTheMeshIsTakenOff(t *testing.T) {
	t.Parallel()
	w := world.Bare(t, world.Options{CRDs: []string{"kuma"}})
	p := &parts{T: t, w: w}
	p.start(w.RunWatcher, w.Executor)
	t.Cleanup(func() { p.halt(len(p.stop)) })

	for n, second := range []bool{false, true} {
		w.Do(t, "create", "namespace", fmt.Sprint("abandoned-", n))
		m := aMeshFor(t, w, fmt.Sprint("abandoned-", n))
		first, then := m.both(second)
		m.begin(first, then, "web:2")

		p.halt(1)
		m.cut(first, "rollout")
		if second { // then only the object and the namespace still show the Rollout
			w.Do(t, "-n", first.ns, "delete", "deployment", "web", "--timeout=600s")
			p.start(w.Executor)
			m.awaitEvent(first.ns, "involvedObject.kind=Service", "Rollout web was removed by force during its release. Service web still selects")
		} else {
			p.start(w.Executor)
			m.awaitEvent(first.ns, "involvedObject.kind=Deployment", "Rollout web was removed by force during its release. Deployment web stays held")
		}
		m.wantShares(20, 20)
		m.gone(first)
		if second {
			m.awaitShares(20, 0)
		} else {
			m.awaitShares(0, 20)
		}
		m.awaitEvent("default", "involvedObject.name="+m.name, fmt.Sprintf("Rollout %s/web was removed by force while it routed by TrafficRoute %s, and its namespace is gone.", first.ns, m.name))

		p.halt(1)
		w.Do(t, "delete", "namespace", then.ns, "--wait=false")
		m.cut(then, "rollout")
		p.start(w.Executor)
		m.awaitShares(0, 0)
		m.wantGivenBack()
	}

	w.Do(t, "create", "namespace", "abandoned")
	m := aMeshFor(t, w, "abandoned")
	m.enlarge()
	m.begin(m.one, m.two, "web:2")
	m.wantStored(1)
	p.halt(2)
	for _, s := range []*shop{m.one, m.two} {
		w.Do(t, "delete", "namespace", s.ns, "--wait=false")
		m.cut(s, "rollout")
		m.gone(s)
	}
	m.wantShares(20, 20)
	w.NATS.Close() // and with it all waiting messages
	w.NATS = anotherNATS(t)
	p.start(w.RunWatcher, w.Executor)
	m.awaitShares(0, 0)
	w.AwaitObject(t, "", "trafficroute", m.name, "without our marks", func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()[api.AnnotationOriginalSpec] == ""
	})
	m.wantStored(0)
	m.wantGivenBack()
}

// awaitEvent waits for an Event about an abandoned object.
func (m *mesh) awaitEvent(ns, selector, begins string) {
	m.Helper()
	ctx := world.Patient(m.T)
	events, err := controlplane.Watch(ctx, m.w.Client(m.T, ns, "event"), metav1.ListOptions{FieldSelector: "reason=ReleaseOrphaned," + selector})
	if err != nil {
		m.Fatal(err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && strings.HasPrefix(fmt.Sprint(u.Object["message"]), begins) {
			return
		}
	}
	m.Errorf("no Event says: %s", begins)
}

func anotherNATS(t *testing.T) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t)})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

package fleet

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/test/world"
)

// An hour-old etcd comes back at the hub in the middle of a wave. The hub notices by its own orders and by the answers of its clusters, and gives no permit to go
// forward before a person resumes. Nothing begins a second time.
func TestARestoredHubWaitsForAPerson(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	old := s.phase(api.FleetPhaseWaiting, "Delivery")
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	used := s.member("eu1", serves("v2")).Status.Fleet.Used
	s.stopHub()
	s.hub.Do(t, "-n", s.namespace, "delete", "fleettargets", "--all", "--as", api.DefaultInstallation().ExecutorUser())
	s.writeStatus(old)
	if err := s.runHub(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := s.phase(api.FleetPhaseStalled, "HubRestored")
	if status.Epoch <= used.Epoch {
		t.Errorf("the restored hub is in epoch %d, which is not above the epoch %d that its clusters know", status.Epoch, used.Epoch)
	}
	s.command(api.FleetCommand{Action: api.FleetCommandResume})
	s.phase(api.FleetPhaseWaiting, "Approval")
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	if again := s.member("eu1", serves("v2")).Status.Sluice.Epoch; again != used.Release {
		t.Errorf("eu1 has released the version in its releases %d and %d", used.Release, again)
	}
}

// writeStatus gives the FleetRollout another status, as a restored etcd does.
func (s *story) writeStatus(status api.FleetRolloutStatus) {
	s.t.Helper()
	u := s.hub.Object(s.t, s.namespace, "fleetrollout", "checkout")
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := unstructured.SetNestedMap(u.Object, body, "status"); err != nil {
		s.t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(s.hub.As(api.DefaultExecutor))
	if err != nil {
		s.t.Fatal(err)
	}
	restored, err := client.Resource(api.FleetRolloutResource()).Namespace(s.namespace).UpdateStatus(s.t.Context(), u, metav1.UpdateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.restored[restored.GetResourceVersion()] = true
}

// The NATS of the hub loses both streams of the fleet in the middle of a wave. They come back with the next messages.
func TestTheStreamsOfTheFleetAreLost(t *testing.T) {
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}" + twoWaves)
	s.deliver("v2", "eu1", "eu2", "eu3")
	s.phase(api.FleetPhaseWaiting, "Approval")
	js := s.hub.JetStream(t)
	for _, stream := range []string{queue.StreamFleetDown, queue.StreamFleetUp} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range s.members { // a NATS that loses its data loses its connections as well; otherwise, clusters look every five minutes
		m.proxy.CutOff()
		m.proxy.Restore()
	}
	s.command(api.FleetCommand{Action: api.FleetCommandApprove})
	s.phase(api.FleetPhaseSucceeded, "Completed")
	s.member("eu2", serves("v2"))
	s.member("eu3", serves("v2"))
}

// An attacker with the rights of the hub's NATS, and without its keys, forges an order, and replays an old one. The cluster refuses both.
func TestForgedAndReplayedOrdersAreRefused(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pausedInTheCanary()
	js := s.hub.JetStream(t)
	rollout := fleetmessage.Name{Namespace: s.namespace, Name: "checkout"}
	subject := fleetmessage.OrderSubject("eu1", rollout)
	first := lastMessage(t, js, subject)
	s.command(api.FleetCommand{Action: api.FleetCommandAbort})
	s.member("eu1", func(r *api.Rollout) bool { return r.Status.Fleet.Permit.Verb == api.FleetVerbAbort })

	// The replay is older than what the cluster has taken in. The forged order is signed by the key of another member.
	var order fleetmessage.Order
	if order = s.decode(first); order.Permit.Verb != api.FleetVerbRelease {
		t.Fatalf("the first order is %+v", order)
	}
	order.Permit.Epoch, order.Member.Name = order.Permit.Epoch+1_000, "eu2"
	forged, err := order.Seal(s.members["eu2"].key)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(js, subject, first)
	s.publish(js, fleetmessage.OrderSubject("eu2", rollout), forged)
	s.member("eu2", func(r *api.Rollout) bool { return refused(r, "not trusted") })
	r := s.member("eu1", func(r *api.Rollout) bool { return r.Status.Fleet != nil })
	if verb := r.Status.Fleet.Permit.Verb; verb != api.FleetVerbAbort {
		t.Errorf("after the replay, the permit of eu1 says %s, want Abort", verb)
	}
}

// publish publishes a message in the place of the last one, whatever that is.
func (s *story) publish(js jetstream.JetStream, subject string, message []byte) {
	s.t.Helper()
	if _, err := js.PublishMsg(s.t.Context(), &nats.Msg{Subject: subject, Data: message}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) decode(message []byte) fleetmessage.Order {
	s.t.Helper()
	public, err := s.key.PublicKey()
	if err != nil {
		s.t.Fatal(err)
	}
	order, _, err := fleetmessage.ReadOrder(message, []string{public})
	if err != nil {
		s.t.Fatal(err)
	}
	return order
}

func lastMessage(t *testing.T, js jetstream.JetStream, subject string) []byte {
	t.Helper()
	stream, err := js.Stream(t.Context(), queue.StreamFleetDown)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// A user aborts the release in one cluster. The budget of the wave is exceeded, and no other cluster begins. A retry lets the cluster begin again.
func TestAFailedClusterStopsItsWaveUntilItIsRetried(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.installed("v1")
	s.release("  release: {version: v2}\n  waves: [{name: all, maxConcurrency: 1}]\n  localPauses: Keep\n")
	s.deliver("v2", "eu1", "eu2", "eu3")
	first := s.await("the first grant", func(status api.FleetRolloutStatus) bool { return status.Grant != nil }).Grant.Clusters[0]
	s.member(first, world.PausedAt(1))
	s.abortLocally(first)
	s.target(first, api.FleetTargetFailed)
	status := s.await("the budget to be exceeded", func(status api.FleetRolloutStatus) bool { return status.Phase == api.FleetPhasePaused })
	if !slices.ContainsFunc(status.Attention, func(a api.FleetAttention) bool { return a.Cluster == first }) {
		t.Errorf("%s needs a person, and status.attention says %+v", first, status.Attention)
	}
	for name := range s.members {
		if name != first {
			s.member(name, awaitsPermit("v2"))
		}
	}
	s.command(api.FleetCommand{Action: api.FleetCommandRetry, Clusters: []string{first}})
	s.member(first, func(r *api.Rollout) bool {
		return world.PausedAt(1)(r) && r.Status.Fleet.Used.Seq == 2 && r.Status.Fleet.Used.Failure == ""
	})
	s.members[first].Approve(t, s.namespace, "checkout")
	s.member(first, serves("v2"))
}

// abortLocally aborts the release of one cluster, as sluice abort does there.
func (s *story) abortLocally(cluster string) {
	s.t.Helper()
	r := s.member(cluster, func(r *api.Rollout) bool { return r.Status.Sluice != nil })
	body, err := json.Marshal(map[string]any{"status": map[string]any{"command": api.Command{Action: api.CommandAbort, Epoch: r.Status.Sluice.Epoch, Actor: "admin"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.members[cluster].Patch(s.t, s.namespace, "rollout", "checkout", string(body), "status"); err != nil {
		s.t.Fatal(err)
	}
}

// A workload that is created under its governed Rollout runs without a permit: nothing is there to hold it. The hub shows it.
func TestAFirstInstallIsReported(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	deployment, rollout, _ := strings.Cut(s.manifests("v1"), "\n---\n")
	s.members["eu1"].Apply(t, s.namespace, rollout)
	s.member("eu1", func(r *api.Rollout) bool { return r.Status.Fleet != nil })
	s.members["eu1"].Apply(t, s.namespace, deployment)
	r := s.member("eu1", serves("v1"))
	if r.Status.Fleet.Unpermitted != api.FleetUnpermittedFirstInstall {
		t.Errorf("the cluster says that its version is unpermitted for %q, want FirstInstall", r.Status.Fleet.Unpermitted)
	}
	s.release("  release: {version: v1}\n  waves: [{name: all, maxConcurrency: 3}]\n")
	s.target("eu1", api.FleetTargetCompleted)
}

// refused reports whether a Rollout waits, and says that an order was refused.
func refused(r *api.Rollout, text string) bool {
	return r.Status.Fleet != nil && strings.Contains(r.Status.Message, text)
}

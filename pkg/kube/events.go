package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/retry"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
)

// Limits of the API server for an Event.
const (
	maxNote   = 1024
	maxReason = 128
)

// maxEventWrites is how many Events the client writes at once; one more call waits.
const maxEventWrites = 16

// RecordEvent writes a Kubernetes Event about the Rollout. The name of the Event comes from its content. So the same
// message again in one release increments the existing Event, whichever executor wrote it. RecordEvent writes in the
// background and only logs errors: the run neither waits nor fails for an Event.
func (c *Client) RecordEvent(s *Snapshot, warning bool, reason, message string) {
	event := eventOnRollout(s.rollout, warning, reason, message)
	c.eventWriter.write(event)
}

// RecordOnKey is [Client.RecordEvent] for a Rollout without a snapshot, as when no run of it gets that far. It records
// nothing for a Rollout that does not exist.
func (c *Client) RecordOnKey(key types.NamespacedName, warning bool, reason, message string) {
	c.eventWriter.writes.Go(func() error {
		r, err := c.getRollout(context.Background(), key)
		switch {
		case err == nil:
			c.eventWriter.writeNow(eventOnRollout(r, warning, reason, message))
		case !apiclient.IsNotFound(err):
			c.log.Warn("record an event", "namespace", key.Namespace, "on", api.KindRollout+"/"+key.Name, "reason", reason, "error", err)
		}
		return nil
	})
}

// RecordRoutingEvent writes a Warning about a TrafficRouting, as [Client.RecordEvent] does about a Rollout.
func (c *Client) RecordRoutingEvent(s *RoutingSnapshot, reason, message string) {
	t := s.routing
	event := eventOn(corev1.ObjectReference{
		APIVersion: api.TrafficRoutingResource().GroupVersion().String(), Kind: api.KindTrafficRouting, Namespace: t.Namespace, Name: t.Name, UID: t.UID,
	}, t.Generation, true, reason, message, time.Now())
	c.eventWriter.write(event)
}

// FlushEvents waits until all Events of earlier calls of [Client.RecordEvent] and [Client.RecordOnKey] are written or
// have failed.
func (c *Client) FlushEvents() { c.eventWriter.flush() }

// eventWriter writes Events in the background.
type eventWriter struct {
	events eventsclient.EventsV1Interface
	log    *slog.Logger
	writes errgroup.Group
}

func newEventWriter(events eventsclient.EventsV1Interface, log *slog.Logger) *eventWriter {
	w := &eventWriter{events: events, log: log}
	w.writes.SetLimit(maxEventWrites)
	return w
}

// write writes an Event soon, and only logs an error.
func (w *eventWriter) write(event *eventsv1.Event) {
	w.writes.Go(func() error {
		w.writeNow(event)
		return nil
	})
}

// flush waits until all Events are written or have failed.
func (w *eventWriter) flush() { _ = w.writes.Wait() }

func (w *eventWriter) writeNow(event *eventsv1.Event) {
	_, err := apiclient.WithDeadline(context.Background(), func(ctx context.Context) (any, error) {
		_, err := w.events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: api.FieldManager})
		if apierrors.IsAlreadyExists(err) {
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return w.incrementSeries(ctx, event) })
		}
		return nil, err
	})
	if err != nil {
		w.log.Warn("record an event", "namespace", event.Namespace, "on", event.Regarding.Kind+"/"+event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

func (w *eventWriter) incrementSeries(ctx context.Context, event *eventsv1.Event) error {
	events := w.events.Events(event.Namespace)
	old, err := events.Get(ctx, event.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	count := int32(2)
	if old.Series != nil {
		count = old.Series.Count + 1
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": old.ResourceVersion},
		"series":   eventsv1.EventSeries{Count: count, LastObservedTime: event.EventTime},
	})
	if err != nil {
		return err
	}
	_, err = events.Patch(ctx, event.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	return err
}

func eventOnRollout(r *api.Rollout, warning bool, reason, message string) *eventsv1.Event {
	return eventOn(corev1.ObjectReference{
		APIVersion: api.GroupVersion().String(), Kind: api.KindRollout, Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}, sluiceStatusOf(r).Epoch, warning, reason, message, time.Now())
}

func eventOn(on corev1.ObjectReference, epoch int64, warning bool, reason, message string, now time.Time) *eventsv1.Event {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	reason, message = truncateText(reason, maxReason), truncateText(message, maxNote)
	sum := sha256.Sum256([]byte(strings.Join([]string{string(on.UID), strconv.FormatInt(epoch, 10), kind, reason, message}, "\x00")))
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(on.Namespace, metav1.NamespaceDefault), Name: strings.TrimRight(truncateText(on.Name, 200), ".-") + "." + hex.EncodeToString(sum[:8])},
		EventTime:  metav1.NewMicroTime(now), Type: kind, Reason: reason, Action: reason, Note: message,
		ReportingController: "sluice.dev/executor", ReportingInstance: truncateText(host, maxReason),
		Regarding: on,
	}
}

func truncateText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

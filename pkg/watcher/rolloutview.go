package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// rolloutView has the fields of a Rollout that a watcher reads. Most of the data that a watch sends about Rollouts is
// the history in their status, which is skipped. The spec is parsed only if it has changed. An invalid Rollout must not
// hide the others, so no field has a decoder of its own that could fail.
type rolloutView struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	spec   json.RawMessage
	status statusView
}

type statusView struct {
	Conditions []struct {
		Type   api.ConditionType
		Status corev1.ConditionStatus
		Reason api.Reason
	}
	CanaryStatus, BlueGreenStatus *stepView
	Sluice                        *struct {
		Epoch, PauseSeq int64
		Step            int32
		State           string
		WakeAt          string
	}
	Analysis *struct{ Step, Release *analysisRunView }
	Command  *struct {
		Action          api.CommandAction
		Epoch, PauseSeq int64
	}
}

// stepView is the part of a status that shows the step and takes commands.
type stepView struct {
	CurrentStepIndex, NextStepIndex int32
	CurrentStepState                api.StepState
}

// currentStep returns the step in the status, nil before the first run of the Rollout.
func (s *statusView) currentStep() *stepView {
	if s.CanaryStatus != nil {
		return s.CanaryStatus
	}
	return s.BlueGreenStatus
}

// rolloutText is a Rollout in the JSON of the API server. It also has the fields of the Status that the API server
// sends instead when a watch fails.
type rolloutText struct {
	Metadata struct {
		Namespace, Name, ResourceVersion string
		UID                              types.UID
		Generation                       int64
		DeletionTimestamp                string
		Finalizers                       []string
		Annotations                      map[string]string
	}
	Spec   json.RawMessage
	Status statusView

	Message string
	Reason  metav1.StatusReason
	Code    int32
}

func (t *rolloutText) toRolloutView() *rolloutView {
	m := t.Metadata
	s := &rolloutView{spec: t.Spec, status: t.Status, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, ResourceVersion: m.ResourceVersion, UID: m.UID, Generation: m.Generation,
		Finalizers: m.Finalizers, Annotations: m.Annotations,
	}}
	if m.DeletionTimestamp != "" {
		s.DeletionTimestamp = &metav1.Time{} // the time does not matter
	}
	return s
}

// wakeAt returns the time at which the release asked for a run, zero for never.
func (s *rolloutView) wakeAt() time.Time {
	if s.status.Sluice == nil {
		return time.Time{}
	}
	return timeOf(s.status.Sluice.WakeAt)
}

// timeOf parses a time in the format of the API server; it returns zero for any other text.
func timeOf(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// withoutStatus returns the Rollout without its status.
func (s *rolloutView) withoutStatus() (*api.Rollout, error) {
	r := &api.Rollout{ObjectMeta: s.ObjectMeta}
	return r, json.Unmarshal(s.spec, &r.Spec)
}

// DeepCopyObject implements runtime.Object. A shallow copy is enough, because no code changes a view.
func (s *rolloutView) DeepCopyObject() runtime.Object {
	c := *s
	return &c
}

type rolloutViewList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []rolloutView
}

// DeepCopyObject implements runtime.Object.
func (s *rolloutViewList) DeepCopyObject() runtime.Object {
	c := *s
	return &c
}

// rolloutLister reads Rollouts as views.
type rolloutLister struct{ rest.Interface }

func (l rolloutLister) openStream(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	g := api.GroupVersion()
	return l.Get().AbsPath("/apis", g.Group, g.Version, api.RolloutResource().Resource).SetHeader("Accept", runtime.ContentTypeJSON).
		VersionedParams(&o, metav1.ParameterCodec).Stream(ctx)
}

// List reads one page of Rollouts.
func (l rolloutLister) List(ctx context.Context, o metav1.ListOptions) (*rolloutViewList, error) {
	stream, err := l.openStream(ctx, o)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var page struct {
		Metadata metav1.ListMeta
		Items    []rolloutText
	}
	if err := decodeValue(json.NewDecoder(stream), &page); err != nil {
		return nil, fmt.Errorf("read the Rollouts: %w", err)
	}
	list := &rolloutViewList{ListMeta: page.Metadata}
	for i := range page.Items {
		list.Items = append(list.Items, *page.Items[i].toRolloutView())
	}
	return list, nil
}

// Watch watches all Rollouts.
func (l rolloutLister) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	stream, err := l.openStream(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&rolloutFrames{stream, json.NewDecoder(stream)},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// rolloutFrames are the events of a watch.
type rolloutFrames struct {
	from io.Closer
	text *json.Decoder
}

// Decode implements watch.Decoder.
func (f *rolloutFrames) Decode() (watch.EventType, runtime.Object, error) {
	var frame struct {
		Type   watch.EventType
		Object rolloutText
	}
	if err := decodeValue(f.text, &frame); err != nil {
		return "", nil, err
	}
	if o := &frame.Object; frame.Type == watch.Error {
		return watch.Error, &metav1.Status{Status: metav1.StatusFailure, Message: o.Message, Reason: o.Reason, Code: o.Code}, nil
	}
	return frame.Type, frame.Object.toRolloutView(), nil
}

// Close implements watch.Decoder.
func (f *rolloutFrames) Close() { _ = f.from.Close() }

// decodeValue reads the next value. It skips a field of an unexpected type and reads the rest.
func decodeValue(from *json.Decoder, into any) error {
	err := from.Decode(into)
	if other := (*json.UnmarshalTypeError)(nil); errors.As(err, &other) {
		return nil
	}
	return err
}

package event

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// FleetData is the body of every event about the release of a FleetRollout. Unknown values are left out.
type FleetData struct {
	// Cluster is the name of the hub's cluster.
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`

	Release *FleetReleaseData `json:"release,omitempty"`
	Wave    *FleetWave        `json:"wave,omitempty"`
	// Member is the cluster that the event is about; nil for one about the release or a wave.
	Member *FleetMember `json:"member,omitempty"`

	// From and To are the phases, or the stages of a wave, before and after.
	From    string `json:"from,omitempty"`
	To      string `json:"to"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Cause   Cause  `json:"cause"`
	Actor   string `json:"actor,omitempty"`
}

// FleetReleaseData identifies a release over many clusters.
type FleetReleaseData struct {
	// Epoch is the number of the release, or of the abort or withdrawal that ends it. Began is the number of the release.
	Epoch int64 `json:"epoch"`
	Began int64 `json:"began,omitempty"`
	// Version is the version that the workloads carry. Without one, Images is the digest of the images.
	Version string `json:"version,omitempty"`
	Images  string `json:"images,omitempty"`
}

// FleetWave is a wave of a plan.
type FleetWave struct {
	// Index is counted from 1; Of is the number of waves.
	Index int32  `json:"index"`
	Of    int32  `json:"of,omitempty"`
	Name  string `json:"name,omitempty"`
}

// FleetMember is a cluster in a release.
type FleetMember struct {
	// Name is the name of its FleetMember.
	Name string `json:"name"`
	// Epoch and Seq are the number of the cluster's last permit.
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
	// Step is counted from 1; 0 before the first one.
	Step int32 `json:"step,omitempty"`
}

// NewFleetTransition returns the event about a transition in the outbox of a FleetRollout's status. The same transition always has the same id, type, time and
// sequence. The wave has its name only while its release is the present one.
func NewFleetTransition(cluster string, r *api.FleetRollout, t api.FleetTransition) (Event, error) {
	of, kind := fleetOf(cluster, r), FleetKindOf(t)
	data := fleetData(of, kind)
	data.Release = releaseOf(t.Epoch, t.Began, t.Version)
	data.Wave = waveOf(r.Status, t.Began, t.Wave)
	data.From, data.To, data.Reason, data.Message, data.Actor = t.From, t.To, t.Reason, t.Message, t.Actor
	return NewChange(of, Change{Noun: kind.Noun, Verb: kind.Verb, Seq: t.Seq, At: t.Time.Time, Data: data})
}

// FleetTargetID returns the id of the event about the state of a cluster, "" for a FleetTarget that has no state yet. Another state has another id.
func FleetTargetID(r *api.FleetRollout, t *api.FleetTarget) string {
	s := t.Status
	if s.Phase == "" || s.Since == nil {
		return ""
	}
	return fmt.Sprintf("%s/cluster/%s/%d/%d.%d/%d", r.UID, t.Spec.Cluster, s.Began, t.Spec.Permit.Epoch, t.Spec.Permit.Seq, s.Since.UnixMicro())
}

// NewFleetTargetState returns the event about the state of a cluster in the release of a FleetRollout. The same state always has the same id, type and time.
func NewFleetTargetState(cluster string, r *api.FleetRollout, t *api.FleetTarget) (Event, error) {
	of, kind := fleetOf(cluster, r), FleetTargetKindOf(t.Status.Phase)
	id, s, permit := FleetTargetID(r, t), t.Status, t.Spec.Permit
	if id == "" {
		return Event{}, fmt.Errorf("build event about FleetTarget %s/%s: it has no phase", t.Namespace, t.Name)
	}
	data := fleetData(of, kind)
	version := ""
	switch { // a state of an older release is not about the version of this one
	case permit.Epoch >= s.Began:
		version = permit.Version
	case r.Status.Began == s.Began && r.Status.Release != nil:
		version = r.Status.Release.Key()
	}
	data.Release = releaseOf(max(permit.Epoch, s.Began), s.Began, version)
	data.Wave = waveOf(r.Status, s.Began, s.Wave)
	data.Member = &FleetMember{Name: t.Spec.Cluster, Epoch: permit.Epoch, Seq: permit.Seq}
	data.To, data.Reason, data.Message = string(s.Phase), s.Reason, FleetTargetText(t)
	if s.Report != nil {
		data.Member.Step = s.Report.Step
	}
	e := of.newEvent(kind.Type(), id, s.Since.Time)
	if err := e.SetData("application/json", data); err != nil {
		return Event{}, fmt.Errorf("encode data of event %s: %w", id, err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, fmt.Errorf("build event %s: %w", id, err)
	}
	return e, nil
}

// FleetTargetText describes the state of a cluster by a sentence.
func FleetTargetText(t *api.FleetTarget) string {
	text := fmt.Sprintf("cluster %s is %s", t.Spec.Cluster, t.Status.Phase)
	if t.Status.Reason != "" {
		text += " (" + t.Status.Reason + ")"
	}
	if r := t.Status.Report; r != nil && r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func fleetOf(cluster string, r *api.FleetRollout) Rollout {
	return Rollout{Cluster: cluster, Namespace: r.Namespace, Name: r.Name, UID: string(r.UID), Fleet: true}
}

func fleetData(of Rollout, kind Kind) FleetData {
	return FleetData{Cluster: of.Cluster, Namespace: of.Namespace, Name: of.Name, UID: of.UID, Cause: kind.Cause}
}

// releaseOf returns nil before the first release. version is a version as in permits.
func releaseOf(epoch, began int64, version string) *FleetReleaseData {
	if epoch <= 0 {
		return nil
	}
	r := &FleetReleaseData{Epoch: epoch, Began: began}
	if name, is := strings.CutPrefix(version, api.PrefixFleetVersion); is {
		r.Version = name
	} else {
		r.Images = strings.TrimPrefix(version, api.PrefixFleetImages)
	}
	return r
}

// waveOf returns nil outside of waves.
func waveOf(s api.FleetRolloutStatus, began int64, wave int32) *FleetWave {
	if wave < 1 {
		return nil
	}
	w := &FleetWave{Index: wave}
	if s.Plan != nil && began == s.Began && int(wave) <= len(s.Plan.Waves) {
		w.Of, w.Name = int32(len(s.Plan.Waves)), s.Plan.Waves[wave-1].Name
	}
	return w
}

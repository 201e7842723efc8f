package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

// maxHistorySpecs is the maximum size of the specs in a record, in bytes. An object in etcd may have 1.5 MiB.
const maxHistorySpecs = 256 << 10

// HistoryObjects are the objects of a release from a snapshot. They do not change with the snapshot, and any of them
// but the Rollout may be missing.
type HistoryObjects struct {
	rollout    *api.Rollout
	workload   rollout.Ref
	deployment *appsv1.Deployment
	object     workload.Object // set instead of deployment for other kinds
	service    *corev1.Service
	gateways   []gatewaySpec
}

type gatewaySpec struct {
	ref  rollout.Ref
	live *unstructured.Unstructured
}

// HistoryObjects returns the current objects of the snapshot.
func (s *Snapshot) HistoryObjects() HistoryObjects {
	i := HistoryObjects{rollout: s.rollout, workload: s.spec.Workload, deployment: s.deployment}
	if len(s.backends) > 0 {
		i.service = s.backends[0].stable // a record has room for one
	}
	if s.object.isPresent() {
		i.object = s.object.Object
	}
	for _, g := range s.gateways {
		i.gateways = append(i.gateways, gatewaySpec{g.ref, g.live})
	}
	return i
}

// releaseID returns the id that the owner of the workload gave a release, or the id of a rollback in batches. It
// returns "" for a release without an id, and for a release that is not under way.
func (i HistoryObjects) releaseID(epoch int64) string {
	switch m := i.rollout.Status.Sluice; {
	case m == nil || m.Epoch != epoch:
		return ""
	case m.RollbackReplicas > 0:
		return rollout.ReleaseID(m.RolloutID, *m)
	default:
		return m.RolloutID
	}
}

// buildSpec returns the specs as their owners wrote them. It removes the changes that hold the workload, narrow the
// Service and route to the canary. It leaves out the largest specs if all are too large together; leftOut says so.
func (i HistoryObjects) buildSpec() (spec api.RolloutHistorySpec, leftOut string) {
	spec.Rollout.ObjectRecord = api.ObjectRecord{Name: i.rollout.Name, Data: rawExtension(i.rollout.Spec)}
	spec.Workload = api.KindRecord{APIVersion: i.workload.APIVersion, Kind: i.workload.Kind, ObjectRecord: api.ObjectRecord{Name: i.workload.Name}}
	all := []recordedSpec{{rollout.Ref{Kind: api.KindRollout, Name: i.rollout.Name}, &spec.Rollout.Data}, {i.workload, &spec.Workload.Data}}
	if i.deployment != nil {
		spec.Workload.Data = patchedSpec(i.deployment, workload.ResumeDeployment(i.deployment, rollout.StableIDKept))
	}
	if i.object.Live != nil {
		spec.Workload.Data = patchedSpec(i.object.Live, i.object.ResumeWorkload(rollout.StableIDKept))
	}
	if i.service != nil {
		spec.Service = api.ObjectRecord{Name: i.service.Name, Data: patchedSpec(i.service, traffic.UnpinService(i.service))}
		all = append(all, recordedSpec{rollout.Ref{Kind: "Service", Name: i.service.Name}, &spec.Service.Data})
	}
	spec.TrafficRouting.CustomNetworkRefs = make([]api.KindRecord, 0, len(i.gateways))
	for _, g := range i.gateways {
		record := api.ObjectRecord{Name: g.ref.Name, Data: g.originalSpec()}
		switch group := g.ref.Group(); {
		case group == "networking.k8s.io" && g.ref.Kind == "Ingress":
			spec.TrafficRouting.Ingress = &record
			all = append(all, recordedSpec{g.ref, &record.Data})
		case group == "gateway.networking.k8s.io" && g.ref.Kind == "HTTPRoute":
			spec.TrafficRouting.HTTPRoute = &record
			all = append(all, recordedSpec{g.ref, &record.Data})
		default:
			// The capacity is enough for all, so the slice never moves.
			custom := append(spec.TrafficRouting.CustomNetworkRefs, api.KindRecord{APIVersion: g.ref.APIVersion, Kind: g.ref.Kind, ObjectRecord: record})
			spec.TrafficRouting.CustomNetworkRefs = custom
			all = append(all, recordedSpec{g.ref, &custom[len(custom)-1].Data})
		}
	}
	return spec, dropLargeSpecs(all)
}

// recordedSpec is the spec of an object in a record.
type recordedSpec struct {
	of   rollout.Ref
	data *runtime.RawExtension
}

// dropLargeSpecs removes specs, the largest first, until the rest is small enough.
func dropLargeSpecs(all []recordedSpec) (leftOut string) {
	for {
		total, largest := 0, all[0]
		for _, n := range all {
			total += len(n.data.Raw)
			if len(n.data.Raw) > len(largest.data.Raw) {
				largest = n
			}
		}
		if total <= maxHistorySpecs {
			return leftOut
		}
		sentence := fmt.Sprintf("The spec of %s is left out: it has %d bytes, and there is room for %d in all.", largest.of, len(largest.data.Raw), maxHistorySpecs)
		leftOut = strings.TrimSpace(leftOut + " " + sentence)
		*largest.data = runtime.RawExtension{}
	}
}

// originalSpec returns the owner's spec, which the first release on the object stored.
func (g gatewaySpec) originalSpec() runtime.RawExtension {
	if g.live == nil {
		return runtime.RawExtension{}
	}
	var original struct {
		Spec json.RawMessage `json:"spec"`
	}
	if text := g.live.GetAnnotations()[api.AnnotationOriginalSpec]; text != "" && json.Unmarshal([]byte(text), &original) == nil && len(original.Spec) > 0 {
		return runtime.RawExtension{Raw: original.Spec}
	}
	return rawExtension(g.live.Object["spec"])
}

// patchedSpec returns the spec of an object with a merge patch applied.
func patchedSpec(object any, patch map[string]any) runtime.RawExtension {
	text, err := json.Marshal(object)
	if err != nil {
		return runtime.RawExtension{}
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return runtime.RawExtension{}
	}
	spec, _ := fields["spec"].(map[string]any)
	wanted, _ := patch["spec"].(map[string]any)
	applyMergePatch(spec, wanted)
	return rawExtension(spec)
}

func applyMergePatch(into, patch map[string]any) {
	for key, value := range patch {
		inner, deep := value.(map[string]any)
		fields, there := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case deep && there:
			applyMergePatch(fields, inner)
		default:
			into[key] = value
		}
	}
}

func rawExtension(value any) runtime.RawExtension {
	text, err := json.Marshal(value)
	if err != nil || string(text) == "null" {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Raw: text}
}

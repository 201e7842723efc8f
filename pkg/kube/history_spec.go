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

// maxHistorySpecs is what a record holds of specs, in bytes. An object of etcd may have 1.5 MiB.
const maxHistorySpecs = 256 << 10

// HistoryObjects are the objects of a release as a snapshot shows them. It stays as it is when the snapshot goes on, and any of them but
// the Rollout may be missing.
type HistoryObjects struct {
	rollout    *api.Rollout
	workload   rollout.Ref
	deployment *appsv1.Deployment
	object     workload.Object // instead of that, when it is no Deployment
	service    *corev1.Service
	gateways   []gatewaySpec
}

type gatewaySpec struct {
	ref  rollout.Ref
	live *unstructured.Unstructured
}

// HistoryObjects are the objects that a snapshot shows now.
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

// releaseID is what the owner of the workload called a release, or what a rollback in batches is called, "" for nothing or when it is another release
// that is under way.
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

// buildSpec holds the specs as their owners wrote them: without the fields that hold the workload, narrow the Service and route to the canary. It
// leaves out specs that are too large, the largest first; the sentence says so.
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
		switch group, _, _ := strings.Cut(g.ref.APIVersion, "/"); {
		case group == "networking.k8s.io" && g.ref.Kind == "Ingress":
			spec.TrafficRouting.Ingress = &record
			all = append(all, recordedSpec{g.ref, &record.Data})
		case group == "gateway.networking.k8s.io" && g.ref.Kind == "HTTPRoute":
			spec.TrafficRouting.HTTPRoute = &record
			all = append(all, recordedSpec{g.ref, &record.Data})
		default:
			// Its place never moves: there is room for all of them.
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

// dropLargeSpecs leaves out specs, the largest first, until the rest is small enough.
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

// originalSpec is what the owner wrote, as the first release on the object has kept it.
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

// patchedSpec is the spec of an object with a merge patch applied.
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

package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// answerRollout refuses a Rollout for a workload that another Rollout of the namespace names, as OpenKruise does. Two Rollouts that are created at the same
// moment both pass; the executor then holds the second one.
func (h *Handler) answerRollout(ctx context.Context, in *admissionv1.AdmissionRequest, out *admissionv1.AdmissionResponse) (what string, err error) {
	var r, old api.Rollout
	if err := json.Unmarshal(in.Object.Raw, &r); err != nil {
		return "", fmt.Errorf("read Rollout: %w", err)
	}
	if in.Operation == admissionv1.Update {
		if err := json.Unmarshal(in.OldObject.Raw, &old); err != nil {
			return "", fmt.Errorf("read old Rollout: %w", err)
		}
	}
	r.Namespace, old.Namespace = in.Namespace, in.Namespace
	if key := rollout.WorkloadKey(&r); key == "" || key == rollout.WorkloadKey(&old) {
		return "unchanged", nil
	}
	others, err := h.list(ctx, in.Namespace)
	if err != nil {
		return "", fmt.Errorf("list Rollouts: %w", err)
	}
	r.UID = "" // also an edited Rollout comes after those that name the workload already
	rival := rollout.RivalOf(&r, others)
	if rival == nil {
		return "unchanged", nil
	}
	out.Allowed = false
	out.Result = &metav1.Status{Message: fmt.Sprintf("%s; change that one: kubectl edit rollout %s -n %s", rollout.RivalMessage(rival.Name), rival.Name, in.Namespace)}
	return "refused", nil
}

// NewRolloutLister lists Rollouts by the API server.
func NewRolloutLister(config *rest.Config) (ListRollouts, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of webhook: %w", err)
	}
	return func(ctx context.Context, namespace string) ([]*api.Rollout, error) {
		list, err := client.Resource(api.RolloutResource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		all := make([]*api.Rollout, len(list.Items))
		for i := range list.Items {
			all[i] = &api.Rollout{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, all[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	}, nil
}

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/api"
)

// CheckCRDs looks at what the API server serves. It asks discovery and not for the CustomResourceDefinitions themselves, because
// everybody may ask discovery.
func (c *Cluster) CheckCRDs(ctx context.Context) []Finding {
	var missing []string
	for _, want := range []struct{ group, version, resource, kind string }{
		{api.Group, api.V1beta1, "rollouts", api.KindRollout},
		{api.Group, api.V1alpha1, "rollouts", api.KindRollout},
		{api.Group, api.V1alpha1, "trafficroutings", api.KindTrafficRouting},
		{api.Group, api.V1alpha1, "rollouthistories", api.KindRolloutHistory},
		{api.GroupSluice, api.V1alpha1, "analysistemplates", api.KindAnalysisTemplate},
		{api.GroupSluice, api.V1alpha1, "clusteranalysistemplates", api.KindClusterAnalysisTemplate},
		{api.GroupSluice, api.V1alpha1, "fleetmembers", api.KindFleetMember},
		{api.GroupSluice, api.V1alpha1, "fleetplans", api.KindFleetPlan},
		{api.GroupSluice, api.V1alpha1, "fleetrollouts", api.KindFleetRollout},
		{api.GroupSluice, api.V1alpha1, "fleettargets", api.KindFleetTarget},
	} {
		served, err := c.servesKind(want.group+"/"+want.version, want.resource, want.kind)
		if err != nil {
			return []Finding{c.unreadFinding("CRDs", want.kind+" "+want.version, err)}
		}
		if !served {
			missing = append(missing, want.kind+" "+want.version)
		}
	}
	if len(missing) == 0 {
		return []Finding{c.checkSchema(ctx)}
	}
	return []Finding{{
		Check: "CRDs", Level: LevelError, Remedy: "Install the CRDs: " + c.installCRDs(),
		Message: fmt.Sprintf("This cluster does not serve %s.", strings.Join(missing, ", ")),
	}}
}

func (c *Cluster) servesKind(groupVersion, resource, kind string) (bool, error) {
	list, err := c.client.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, r := range list.APIResources {
		if r.Name == resource && r.Kind == kind {
			return true, nil
		}
	}
	return false, nil
}

// checkSchema looks whether the Rollout served is ours. With OpenKruise's own CRD the API server would silently drop the state of
// every release.
func (c *Cluster) checkSchema(ctx context.Context) Finding {
	f := Finding{Check: "CRDs", Level: LevelOK, Message: "Rollout v1beta1 and v1alpha1, TrafficRouting, RolloutHistory, the analysis templates and the kinds of a fleet are installed."}
	body, err := c.client.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/"+api.Group+"/"+api.V1beta1).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		f.Level, f.Message, f.Remedy = LevelWarning, "The schema of Rollout is not published yet.", "The CRDs are probably seconds old: run sluice check again."
		return f
	}
	if err != nil {
		return c.unreadFinding(f.Check, "The schema of Rollout", err)
	}
	ours, err := hasOurStatus(body)
	if err != nil {
		return c.unreadFinding(f.Check, "The schema of Rollout", err)
	}
	if !ours {
		f.Level = LevelError
		f.Message = "The CRD rollouts.rollouts.kruise.io is not Sluice's: it has no status.sluice, so that the state of releases would be lost."
		f.Remedy = "Replace the CRDs, which keeps all Rollouts: " + c.installCRDs() + " --force-conflicts"
	}
	return f
}

// openAPI is the part of an OpenAPI document that matters here.
type openAPI struct {
	Components struct {
		Schemas map[string]struct {
			Kinds []struct {
				Kind string `json:"kind"`
			} `json:"x-kubernetes-group-version-kind"`
			Properties struct {
				Status struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"status"`
			} `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func hasOurStatus(body []byte) (bool, error) {
	var document openAPI
	if err := json.Unmarshal(body, &document); err != nil {
		return false, fmt.Errorf("read OpenAPI document: %w", err)
	}
	for _, s := range document.Components.Schemas {
		for _, k := range s.Kinds {
			if _, ours := s.Properties.Status.Properties["sluice"]; k.Kind == api.KindRollout {
				return ours, nil
			}
		}
	}
	return false, fmt.Errorf("read OpenAPI document: no kind %s in it", api.KindRollout)
}

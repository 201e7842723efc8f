package api

import (
	"encoding/json"
	"fmt"
)

// ReleasePatch returns the JSON merge patch that names a version in spec.release, and a FleetPlan in spec.plan unless plan is "". It counts only for the
// FleetRollout as it was seen. It takes away what the present release has and the new one has not.
func (in *FleetRollout) ReleasePatch(release FleetRelease, plan string) ([]byte, error) {
	images := map[string]any{}
	if old := in.Spec.Release; old != nil {
		for container := range old.Images {
			images[container] = nil
		}
	}
	for container, image := range release.Images {
		images[container] = image
	}
	fields := map[string]any{"version": nil, "images": nil}
	if release.Version != "" {
		fields["version"] = release.Version
	}
	if len(release.Images) > 0 {
		fields["images"] = images
	}
	spec := map[string]any{"release": fields}
	if plan != "" {
		spec["plan"] = plan
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": in.ResourceVersion, "uid": in.UID}, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	return patch, nil
}

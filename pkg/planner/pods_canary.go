package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// CanaryID identifies the content of a canary's pods: the revision of the workload, and the metadata that the Rollout adds. Without metadata, it is
// the revision itself. Routes are rendered with that metadata, so pods with older labels would get no traffic.
func CanaryID(revision string, patchLabels, patchAnnotations map[string]string) string {
	if len(patchLabels) == 0 && len(patchAnnotations) == 0 {
		return revision
	}
	body, err := json.Marshal([]map[string]string{patchLabels, patchAnnotations})
	if err != nil {
		return revision
	}
	sum := sha256.Sum256(body)
	return revision + "-" + hex.EncodeToString(sum[:4])
}

func (p *planner) canaryID() string {
	return CanaryID(p.m.CanaryRevision, p.seen.Spec.PatchLabels, p.seen.Spec.PatchAnnotations)
}

// canaryLost reports whether there is no canary of this release with the present metadata of the Rollout.
func (p *planner) canaryLost() bool {
	c := p.seen.Canary
	return c == nil || c.Deleting || !c.Ours || c.Epoch != p.m.Epoch || c.Revision != p.canaryID()
}

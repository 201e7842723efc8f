package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// CanaryID identifies what the pods of a canary are made of: the revision of the workload, and the metadata that the Rollout adds.
// Without any it is the revision itself. Routes are rendered with that metadata, so that pods with older labels would get no traffic.
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

// canaryLost reports whether there is no canary of this release, made as the Rollout wants it now.
func (p *planner) canaryLost() bool {
	c := p.seen.Canary
	return c == nil || c.Deleting || !c.Ours || c.Epoch != p.m.Epoch || c.Revision != p.canaryID()
}

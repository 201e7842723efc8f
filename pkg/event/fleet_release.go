package event

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice.dev/sluice/pkg/api"
)

// TypeFleetRelease is the type of the event with which an outside sender names the version of a FleetRollout's next release.
const TypeFleetRelease = "dev.sluice.fleet.release.v1"

// DecisionRelease is the decision in the answer to an event of [TypeFleetRelease].
const DecisionRelease api.Decision = "release"

// FleetRelease is the data of an event of [TypeFleetRelease]. At least one of Version and Images is given.
type FleetRelease struct {
	// Version is the version that the workloads carry.
	Version string `json:"version,omitempty"`
	// Images are the images by the names of their containers.
	Images map[string]string `json:"images,omitempty"`
	// Plan is a FleetPlan that the FleetRollout follows from now on.
	Plan string `json:"plan,omitempty"`
	// UID is the metadata.uid of the FleetRollout. If it is given, it must match.
	UID string `json:"uid,omitempty"`
	// Epoch is the status.epoch that the sender has seen. If it is given, no other release may have begun since.
	Epoch int64 `json:"epoch,omitempty"`
	// Comment is for people.
	Comment string `json:"comment,omitempty"`
}

// Release returns the version as spec.release names it.
func (r FleetRelease) Release() api.FleetRelease {
	return api.FleetRelease{Version: r.Version, Images: r.Images}
}

// Maximum numbers and lengths of images, as in the schema of a FleetRollout.
const (
	maxImages        = 64
	maxContainerName = 63
)

// ParseFleetRelease reads the version of a fleet's release, and the FleetRollout in the subject, as [ParseApproval] reads an approval.
func ParseFleetRelease(e Event) (FleetRelease, Rollout, error) {
	about, fields, err := openRequest(e, TypeFleetRelease)
	if err != nil {
		return FleetRelease{}, about, err
	}
	if !about.Fleet {
		return FleetRelease{}, about, fmt.Errorf("subject is %q, want namespaces/<namespace>/fleetrollouts/<name>", e.Subject())
	}
	var r FleetRelease
	texts := []textField{{"version", &r.Version, maxRolloutID}, {"plan", &r.Plan, maxRolloutID}, {"uid", &r.UID, maxID}, {"comment", &r.Comment, maxComment}}
	if err := fields.readTexts(texts); err != nil {
		return FleetRelease{}, about, err
	}
	if r.Epoch, err = fields.readEpoch(); err != nil {
		return FleetRelease{}, about, err
	}
	if r.Images, err = fields.readImages(); err != nil {
		return FleetRelease{}, about, err
	}
	switch {
	case r.Version == "" && len(r.Images) == 0:
		return FleetRelease{}, about, errors.New("data names no version: give version, images or both")
	case slices.ContainsFunc([]rune(r.Version), func(c rune) bool { return c < '!' || c > '~' }):
		return FleetRelease{}, about, fmt.Errorf("data.version is %q, want ASCII characters without spaces", r.Version)
	}
	return r, about, nil
}

// readImages reads images by the names of their containers.
func (f fields) readImages() (map[string]string, error) {
	raw, given := f["images"]
	if !given || string(raw) == "null" {
		return nil, nil
	}
	list, err := parseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("data.images: %w", err)
	}
	if len(list) == 0 || len(list) > maxImages {
		return nil, fmt.Errorf("data.images has %d images, want 1 to %d by the names of their containers", len(list), maxImages)
	}
	images := map[string]string{}
	for _, container := range slices.Sorted(maps.Keys(list)) {
		image := ""
		given, err := list.readField(container, &image)
		if err != nil || !given {
			return nil, fmt.Errorf("data.images.%s is not an image", container)
		}
		if err := checkText("data.images."+container, image, maxImage, ""); err != nil {
			return nil, err
		}
		if err := checkText("the name of a container in data.images", container, maxContainerName, ""); err != nil {
			return nil, err
		}
		images[container] = image
	}
	return images, nil
}

// Request is an event that an outside sender sends to Sluice.
type Request struct {
	About Rollout
	// Approval is a decision about a step or a wave; nil for a release.
	Approval *Approval
	// Release is the version of a fleet's next release; nil for an approval.
	Release *FleetRelease
}

// ParseRequest reads an event of [TypeApproval] or [TypeFleetRelease]. It returns what it could read also with an error.
func ParseRequest(e Event) (Request, error) {
	if e.Type() == TypeFleetRelease {
		release, about, err := ParseFleetRelease(e)
		return Request{About: about, Release: &release}, err
	}
	approval, about, err := ParseApproval(e)
	return Request{About: about, Approval: &approval}, err
}

// Verbs of requests, which are also the RBAC verbs that they need.
const (
	VerbApprove = "approve"
	VerbRelease = "release"
	// VerbUse is for a release with another plan: it also needs the verb on the FleetPlan.
	VerbUse = "use"
)

// Verb returns what the sender must be allowed to do.
func (r Request) Verb() string {
	switch {
	case r.Release == nil:
		return VerbApprove
	case r.Release.Plan != "":
		return VerbUse
	}
	return VerbRelease
}

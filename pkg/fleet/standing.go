package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// Standing is how far the release of one version has come, for a program that waits for it.
type Standing int

// Values of Standing.
const (
	// NotBegun: spec.release does not name the version yet, or the hub has not begun its release.
	NotBegun Standing = iota
	// UnderWay: the release goes on by itself.
	UnderWay
	// NeedsPerson: the release stands still until a person acts.
	NeedsPerson
	// Succeeded: all waves have passed, or the wave that the program waits for.
	Succeeded
	// Failed: the version was withdrawn, or its release aborted.
	Failed
	// Superseded: another version has taken its place.
	Superseded
)

// ExitCode is how a program that waits for a release ends: 0 for success, 2 for a version that was withdrawn or aborted, 3 if a person must act, 4 for a release
// that goes on, and 5 for one that was superseded.
func (s Standing) ExitCode() int {
	switch s {
	case Succeeded:
		return 0
	case Failed:
		return 2
	case NeedsPerson:
		return 3
	case Superseded:
		return 5
	}
	return 4
}

// String returns the name of the standing, as programs read it.
func (s Standing) String() string {
	return map[Standing]string{
		NotBegun: "NotBegun", UnderWay: "UnderWay", NeedsPerson: "NeedsPerson", Succeeded: "Succeeded", Failed: "Failed", Superseded: "Superseded",
	}[s]
}

// Wanted is the release that a program waits for.
type Wanted struct {
	Release api.FleetRelease
	// UntilWave is the name of the last wave of interest; "" for the whole release.
	UntilWave string
	// UID and Epoch are the FleetRollout and the release of interest, "" and 0 for the present ones.
	UID   string
	Epoch int64
	// Named: spec.release has named the release before, so another version in its place supersedes it.
	Named bool
}

// recoveryTime is how long clusters that the hub has lost have to come back before the release waits for a person.
const recoveryTime = time.Minute

// StandingOf returns how far a release has come, and describes it by a sentence. It notes in w that the FleetRollout has named the release.
func StandingOf(r *api.FleetRollout, w *Wanted, now time.Time) (Standing, string) {
	if w.UID != "" && w.UID != string(r.UID) {
		return Superseded, fmt.Sprintf("FleetRollout %s/%s was deleted and created again, with the uid %s", r.Namespace, r.Name, r.UID)
	}
	if w.Epoch > 0 && r.Status.Began > w.Epoch {
		return Superseded, fmt.Sprintf("release %d in FleetRollout %s/%s was superseded by release %d of %s", w.Epoch, r.Namespace, r.Name, r.Status.Began, ReleaseText(r.Status.Release))
	}
	name, version := "FleetRollout "+r.Namespace+"/"+r.Name, ReleaseText(&w.Release)
	spec, status := r.Spec.Release, r.Status.Release
	begun := status != nil && w.is(status)
	named := spec != nil && w.is(spec)
	superseded := (w.Named || begun) && !named
	w.Named = w.Named || named
	switch {
	case !named && begun && (r.Status.Verb == api.FleetVerbWithdraw || r.Status.Verb == api.FleetVerbAbort): // it had ended before another version was named
		return standingOfBegun(r, w, now, fmt.Sprintf("the release of %s in %s", version, name))
	case superseded:
		return Superseded, fmt.Sprintf("%s was superseded by %s in %s", version, ReleaseText(spec), name)
	case !named && w.blockedIn(r):
		return Failed, fmt.Sprintf("%s was withdrawn from %s", version, name)
	case !named:
		return NotBegun, fmt.Sprintf("%s does not name %s yet; it names %s", name, version, ReleaseText(spec))
	case r.Status.Phase == "":
		return NotBegun, fmt.Sprintf("no executor of a hub has looked at %s yet", name)
	case !begun && r.Status.Phase == api.FleetPhaseStalled && r.Status.ObservedGeneration >= r.Generation:
		return NeedsPerson, fmt.Sprintf("the release of %s in %s has not begun: %s", version, name, r.Status.Message)
	case !begun || r.Status.ObservedGeneration < r.Generation:
		return NotBegun, fmt.Sprintf("the release of %s in %s has not begun yet", version, name)
	}
	return standingOfBegun(r, w, now, fmt.Sprintf("the release of %s in %s", version, name))
}

// standingOfBegun describes a release that the hub has begun.
func standingOfBegun(r *api.FleetRollout, w *Wanted, now time.Time, what string) (Standing, string) {
	s := r.Status
	switch {
	case s.Verb == api.FleetVerbWithdraw:
		return Failed, fmt.Sprintf("%s has failed: %s", what, s.Message)
	case s.Verb == api.FleetVerbAbort:
		return Failed, fmt.Sprintf("%s was aborted: %s", what, s.Message)
	case s.Phase == api.FleetPhaseSucceeded:
		return Succeeded, fmt.Sprintf("%s has succeeded: %s", what, s.Message)
	case w.waveReached(s):
		return Succeeded, fmt.Sprintf("wave %s has completed in %s: %s", w.UntilWave, what, s.Message)
	case standsStill(s) && !mayRecover(s, now):
		return NeedsPerson, fmt.Sprintf("%s waits for a person: %s", what, s.Message)
	}
	return UnderWay, fmt.Sprintf("%s is %s%s: %s", what, s.Phase, progressText(r), s.Message)
}

// mayRecover reports whether a release stands still because the hub has lost clusters a short time ago. It goes on by itself when they come back.
func mayRecover(s api.FleetRolloutStatus, now time.Time) bool {
	if s.Phase != api.FleetPhaseStalled || s.Reason != "BudgetExceeded" && s.Reason != "HubCutOff" {
		return false
	}
	for _, a := range s.Attention {
		if a.Cluster == "" && a.Since != nil {
			return now.Sub(a.Since.Time) < recoveryTime
		}
	}
	return false
}

// progressText says in which wave a release is, and how many clusters have completed.
func progressText(r *api.FleetRollout) string {
	s := r.Status
	if s.Plan == nil || s.Wave == 0 {
		return ""
	}
	text := fmt.Sprintf(", wave %d of %d", s.Wave, len(s.Plan.Waves))
	all := int32(0)
	for _, n := range s.Counts {
		all += n
	}
	if all > 0 {
		text += fmt.Sprintf(", %d of %d clusters completed", s.Counts[api.FleetTargetCompleted], all)
	}
	return text
}

// is reports whether a release is the wanted one. A version alone stands for each release of that version.
func (w *Wanted) is(r *api.FleetRelease) bool {
	if w.Release.Version != "" && w.Release.Version != r.Version {
		return false
	}
	return len(w.Release.Images) == 0 || api.FleetImagesDigest(w.Release.Images) == api.FleetImagesDigest(r.Images)
}

func (w *Wanted) blockedIn(r *api.FleetRollout) bool {
	for _, b := range r.Status.Blocked {
		if b.Version == w.Release.Key() && !b.Unblocked {
			return true
		}
	}
	return false
}

// waveReached reports whether the clusters of the wanted wave have completed.
func (w *Wanted) waveReached(s api.FleetRolloutStatus) bool {
	if w.UntilWave == "" {
		return false
	}
	for _, wave := range s.Waves {
		if wave.Name == w.UntilWave {
			return waveEnded(wave) || wave.Stage == api.FleetWavePause
		}
	}
	return false
}

// standsStill reports whether a release that has not ended stands still until a person acts.
func standsStill(s api.FleetRolloutStatus) bool {
	switch s.Phase {
	case api.FleetPhaseStalled:
		return true
	case api.FleetPhaseWaiting:
		return s.Reason == "Approval"
	case api.FleetPhasePaused:
		return s.Reason != "Duration"
	}
	return false
}

// ReleaseText names the version of a release for people.
func ReleaseText(r *api.FleetRelease) string {
	switch {
	case r == nil || r.Key() == "":
		return "no version"
	case r.Version != "":
		return r.Version
	}
	return "the images " + ImagesText(r.Images)
}

// ImagesText returns images by container, sorted.
func ImagesText(images map[string]string) string {
	var parts []string
	for _, container := range slices.Sorted(maps.Keys(images)) {
		parts = append(parts, container+"="+images[container])
	}
	return strings.Join(parts, ", ")
}

// ParseImages is the inverse of [ImagesText], with one text for each container; nil without texts.
func ParseImages(texts []string) (map[string]string, error) {
	var images map[string]string
	for _, text := range texts {
		container, reference, ok := strings.Cut(text, "=")
		if !ok || container == "" || reference == "" {
			return nil, fmt.Errorf("%q: write CONTAINER=IMAGE, such as app=registry.example.com/checkout:v2", text)
		}
		if images == nil {
			images = map[string]string{}
		}
		if _, twice := images[container]; twice {
			return nil, fmt.Errorf("names the container %s twice", container)
		}
		images[container] = reference
	}
	return images, nil
}

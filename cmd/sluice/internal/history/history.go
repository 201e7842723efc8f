// Package history shows the past releases of a Rollout from their records, together with the revisions of its workload. It sends no requests and changes no
// objects.
//
// Its one invariant: fields that a record lacks stay empty, never guessed.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
)

// SortRecords sorts records by their releases, oldest first, and fills in missing numbers from the names of the records.
func SortRecords(records []*api.RolloutHistory) {
	for _, r := range records {
		if r.Status.Epoch == 0 {
			number := r.Name[strings.LastIndex(r.Name, "-")+1:]
			r.Status.Epoch, _ = strconv.ParseInt(number, 10, 64)
		}
	}
	slices.SortFunc(records, func(a, b *api.RolloutHistory) int { return cmp.Compare(a.Status.Epoch, b.Status.Epoch) })
}

// OutcomeText returns the outcome of a release in a word or two.
func OutcomeText(r *api.RolloutHistory) string {
	switch {
	case r.Status.Outcome != "":
		return string(r.Status.Outcome)
	case r.Status.Phase == api.HistoryCompleted:
		return "ended"
	}
	return "under way"
}

// WriteReleases writes a table of releases, with the workload revision of each release, if it still exists.
func WriteReleases(out io.Writer, records []*api.RolloutHistory, revisions []revision.Revision, now time.Time) error {
	rows := [][]string{{"RELEASE", "REVISION", "OUTCOME", "IMAGES", "STARTED", "TOOK", "STEPS", "APPROVED BY"}}
	for _, r := range records {
		rows = append(rows, []string{
			strconv.FormatInt(r.Status.Epoch, 10), numberText(RevisionOf(r, revisions)), OutcomeText(r), strings.Join(r.Status.Images, ","),
			timeText(r.Status.StartedAt), durationText(r.Status.StartedAt, r.Status.EndedAt, now), stepsText(r), strings.Join(approvers(r), ","),
		})
	}
	return writeTable(out, rows)
}

// WriteRevisions writes a table of the revisions of a workload.
func WriteRevisions(out io.Writer, w revision.Workload, stable string, now time.Time) error {
	rows := [][]string{{"REVISION", "IMAGES", "AGE", "NOTE", "CHANGE-CAUSE"}}
	for _, r := range w.Revisions {
		rows = append(rows, []string{numberText(&r), strings.Join(r.Images(), ","), duration.HumanDuration(now.Sub(r.Created)), RevisionNote(r, w, stable), r.Cause})
	}
	return writeTable(out, rows)
}

// RevisionNote describes the relation of a revision to the current workload.
func RevisionNote(r revision.Revision, w revision.Workload, stable string) string {
	switch {
	case r.Is(stable):
		return "stable"
	case r.Digest == w.Digest():
		return "present"
	}
	return ""
}

func writeTable(out io.Writer, rows [][]string) error {
	var padded bytes.Buffer
	w := tabwriter.NewWriter(&padded, 6, 4, 3, ' ', 0)
	for _, cells := range rows {
		for i := range cells {
			cells[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(padded.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// RevisionOf returns the workload revision of a release; nil if it no longer exists.
func RevisionOf(r *api.RolloutHistory, revisions []revision.Revision) *revision.Revision {
	return findRevision(r.Status.CanaryRevision, revisions)
}

func findRevision(id string, revisions []revision.Revision) *revision.Revision {
	i := slices.IndexFunc(revisions, func(r revision.Revision) bool { return r.Is(id) })
	if i < 0 {
		return nil
	}
	return &revisions[i]
}

func numberText(r *revision.Revision) string {
	if r == nil {
		return ""
	}
	return strconv.FormatInt(r.Number, 10)
}

func timeText(t *metav1.MicroTime) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// durationText returns the duration from from to to, or to now without an end.
func durationText(from, to *metav1.MicroTime, now time.Time) string {
	switch {
	case from == nil:
		return ""
	case to != nil:
		now = to.Time
	}
	return duration.HumanDuration(now.Sub(from.Time))
}

// stepsText returns the last step that the release entered and, if the record has the plan, the number of steps.
func stepsText(r *api.RolloutHistory) string {
	furthest := int32(0)
	for _, s := range r.Status.Steps {
		furthest = max(furthest, s.Step)
	}
	text := strconv.Itoa(int(furthest))
	if all := plannedSteps(r); all > 0 {
		text += "/" + strconv.Itoa(all)
	}
	return text
}

// plannedSteps returns the number of steps of the Rollout, 0 if the record does not have it.
func plannedSteps(r *api.RolloutHistory) int {
	var spec struct {
		Strategy struct {
			Canary, BlueGreen struct{ Steps []json.RawMessage }
		}
	}
	if json.Unmarshal(r.Spec.Rollout.Data.Raw, &spec) != nil {
		return 0
	}
	return max(len(spec.Strategy.Canary.Steps), len(spec.Strategy.BlueGreen.Steps))
}

func approvers(r *api.RolloutHistory) []string {
	var all []string
	for _, s := range r.Status.Steps {
		if s.ApprovedBy != "" && !slices.Contains(all, s.ApprovedBy) {
			all = append(all, s.ApprovedBy)
		}
	}
	return all
}

package fleetview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// newTable returns a table with columns. Those after the number of narrow ones are for wide output.
func newTable(narrow int, columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for i, name := range columns {
		column := metav1.TableColumnDefinition{Name: name}
		if i >= narrow {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

func addRow(t *metav1.Table, of metav1.ObjectMeta, cells ...any) error {
	object, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: of.Name, Namespace: of.Namespace, UID: of.UID, ResourceVersion: of.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("write row of table: %w", err)
	}
	t.Rows = append(t.Rows, metav1.TableRow{Object: runtime.RawExtension{Raw: object}, Cells: cells})
	return nil
}

// RolloutTable returns a row for each FleetRollout.
func RolloutTable(rollouts []api.FleetRollout, now time.Time) (*metav1.Table, error) {
	t := newTable(8, "Name", "Phase", "Version", "Wave", "Completed", "Failed", "Message", "Age", "Reason", "Plan")
	for i := range rollouts {
		r := &rollouts[i]
		s := r.Status
		version, wave, completed, failed := "", "", "", ""
		if s.Release != nil {
			version = fleet.ReleaseText(s.Release)
		}
		if s.Wave > 0 && s.Plan != nil {
			wave = fmt.Sprintf("%d/%d %s", s.Wave, len(s.Plan.Waves), WaveName(r, s.Wave))
		}
		if len(s.Counts) > 0 {
			all := int32(0)
			for _, n := range s.Counts {
				all += n
			}
			completed, failed = fmt.Sprintf("%d/%d", s.Counts[api.FleetTargetCompleted], all), number(s.Counts[api.FleetTargetFailed])
		}
		if err := addRow(t, r.ObjectMeta, r.Name, string(s.Phase), version, wave, completed, failed, s.Message, age(now, r.CreationTimestamp.Time), s.Reason, r.Spec.Plan); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// TargetTable returns a row for each cluster of a release.
func TargetTable(clusters []fleet.ReleaseCluster, now time.Time) (*metav1.Table, error) {
	t := newTable(8, "Cluster", "Wave", "Phase", "Reason", "Step", "Runs", "Since", "Message")
	for _, c := range clusters {
		wave, step, since := "", "", ""
		if c.Wave > 0 {
			wave = fmt.Sprintf("%d %s", c.Wave, c.WaveName)
		}
		if c.Step > 0 {
			step = number(c.Step)
		}
		if c.Since != nil {
			since = age(now, c.Since.Time)
		}
		if err := addRow(t, metav1.ObjectMeta{Name: c.Name, UID: types.UID(c.Name), ResourceVersion: "1"}, c.Name, wave, string(c.Phase), c.Reason, step, c.Runs, since, c.Message); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// MemberTable returns a row for each FleetMember.
func MemberTable(members []api.FleetMember, now time.Time) (*metav1.Table, error) {
	t := newTable(8, "Name", "Phase", "Last_Seen", "Enforcement", "Version", "Skew", "Cordoned", "Age", "Labels", "Message")
	for i := range members {
		m := &members[i]
		phase, seen, skew := cmp.Or(string(m.Status.Phase), neverHeard), "", ""
		if m.Status.LastSeen != nil {
			seen = age(now, m.Status.LastSeen.Time)
		}
		if m.Status.ClockSkew != nil {
			skew = m.Status.ClockSkew.Duration.String()
		}
		if err := addRow(t, m.ObjectMeta, m.Name, phase, seen, string(m.Status.Enforcement), m.Status.Version, skew, cordonText(m.Spec.Cordoned, now),
			age(now, m.CreationTimestamp.Time), labelSet(m.Labels).String(), m.Status.Message); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// cordonText describes a cordon that counts now, "" for none.
func cordonText(c *api.FleetCordon, now time.Time) string {
	if !c.Holds(now) {
		return ""
	}
	text := c.Reason
	if text == "" {
		text = "yes"
	}
	if c.Until != nil {
		text += ", until " + c.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// Package listing builds the table of Rollouts for sluice list. It reads and prints nothing. Its one invariant: columns about a release are empty for a Rollout
// without a release under way.
package listing

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
	"sluice.dev/sluice/pkg/rollout"
)

// RolloutTable returns a row for each Rollout, with its name, version and UID.
func RolloutTable(rollouts []*api.Rollout, now time.Time) (*metav1.Table, error) {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name"}, {Name: "Status"}, {Name: "Step"}, {Name: "State"}, {Name: "Weight"}, {Name: "Ready"}, {Name: "Message"}, {Name: "Age"},
		{Name: "Workload", Priority: 1}, {Name: "Stable", Priority: 1}, {Name: "New", Priority: 1},
	}}
	for _, r := range rollouts {
		object, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion}})
		if err != nil {
			return nil, fmt.Errorf("write row of table: %w", err)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Object: runtime.RawExtension{Raw: object}, Cells: rowCells(r, now)})
	}
	return t, nil
}

func rowCells(r *api.Rollout, now time.Time) []any {
	step, state, weight, ready, stable, fresh := "", "", "", "", "", ""
	m := r.Status.Sluice
	if at := rollout.State(m.GetState()); at.Releasing() {
		stable, fresh = m.StableRevision, m.CanaryRevision
		step, state, weight, ready = fmt.Sprintf("%d/%d", m.Step, len(release.Steps(r))), string(at), m.GetTraffic(), readyPods(r)
	}
	status := string(r.Status.Phase)
	if r.Spec.Strategy.Paused {
		status += ",Paused"
	}
	kind, workload := release.WorkloadOf(r)
	return []any{r.Name, status, step, state, weight, ready, r.Status.Message, duration.HumanDuration(now.Sub(r.CreationTimestamp.Time)), kind + "/" + workload, stable, fresh}
}

// readyPods returns the number of ready pods of the new version, and the number of all its pods.
func readyPods(r *api.Rollout) string {
	switch {
	case r.Status.CanaryStatus != nil:
		return fmt.Sprintf("%d/%d", r.Status.CanaryStatus.CanaryReadyReplicas, r.Status.CanaryStatus.CanaryReplicas)
	case r.Status.BlueGreenStatus != nil:
		return fmt.Sprintf("%d/%d", r.Status.BlueGreenStatus.UpdatedReadyReplicas, r.Status.BlueGreenStatus.UpdatedReplicas)
	}
	return ""
}

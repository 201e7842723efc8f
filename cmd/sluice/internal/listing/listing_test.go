package listing_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/cmd/sluice/internal/listing"
	"sluice.dev/sluice/cmd/sluice/internal/table"
	"sluice.dev/sluice/pkg/api"
)

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func named(name string, step int32, state string, changes ...func(*api.Rollout)) *api.Rollout {
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	r.Spec.WorkloadRef = &api.ObjectRef{Kind: "Deployment", Name: name}
	r.Spec.Strategy.Canary = &api.CanaryStrategy{Steps: []api.Step{{}, {}, {}}}
	r.Status = api.RolloutStatus{
		Phase: api.PhaseProgressing, Message: "the message", Sluice: &api.SluiceStatus{Step: step, State: state, StableRevision: "old", CanaryRevision: "new"},
		CanaryStatus: &api.CanaryStatus{CanaryReplicas: 2, CanaryReadyReplicas: 1},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

// getting sets the share of requests of the new version.
func getting(share string) func(*api.Rollout) {
	return func(r *api.Rollout) { r.Status.Sluice.Traffic = share }
}

func TestTheTable(t *testing.T) {
	t.Parallel()
	rollouts := []*api.Rollout{
		named("aborted", 2, "Aborted", getting("0%")),
		named("ending", 3, "Finalising"),
		named("green", 1, "StepPaused", getting("5%"), func(r *api.Rollout) {
			r.Spec.Strategy = api.Strategy{BlueGreen: &api.BlueGreenStrategy{Steps: []api.Step{{}}}}
			r.Status.CanaryStatus, r.Status.BlueGreenStatus = nil, &api.BlueGreenStatus{UpdatedReplicas: 4, UpdatedReadyReplicas: 4}
		}),
		named("healthy", 3, "Idle", func(r *api.Rollout) { r.Status.Phase = api.PhaseHealthy }),
		named("matched", 1, "StepPaused", getting("matches")),
		named("new", 0, "", func(r *api.Rollout) { r.Status = api.RolloutStatus{} }),
		named("shared", 2, "StepTrafficRouting", getting("20%"), func(r *api.Rollout) { r.Spec.Strategy.Paused = true }),
	}
	got, err := listing.RolloutTable(rollouts, now)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&table.Printer{Out: &out, Wide: true, Namespaces: true}).PrintRows(got); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE   NAME      STATUS               STEP   STATE                WEIGHT    READY   MESSAGE       AGE   WORKLOAD             STABLE   NEW
shop        aborted   Progressing          2/3    Aborted              0%        1/2     the message   60m   Deployment/aborted   old      new
shop        ending    Progressing          3/3    Finalising                     1/2     the message   60m   Deployment/ending    old      new
shop        green     Progressing          1/1    StepPaused           5%        4/4     the message   60m   Deployment/green     old      new
shop        healthy   Healthy                                                            the message   60m   Deployment/healthy            
shop        matched   Progressing          1/3    StepPaused           matches   1/2     the message   60m   Deployment/matched   old      new
shop        new                                                                                        60m   Deployment/new                
shop        shared    Progressing,Paused   2/3    StepTrafficRouting   20%       1/2     the message   60m   Deployment/shared    old      new
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"sluice.dev/sluice/dev/demo/router"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

// named returns a member by its name.
func (f *fleet) named(name string) *member {
	for _, m := range f.members {
		if m.context == name {
			return m
		}
	}
	return nil
}

// deploy creates the shop in each cluster, with its servers, its router, its Prometheus and its users.
func (f *fleet) deploy(ctx context.Context) (err error) {
	f.say("  Each cluster has its own users, HTTP servers that answer for its simulated pods, a router, and a Prometheus.")
	files := []string{fleetFiles + "service.yaml", shopFiles + "virtualservice.yaml", shopFiles + "templates.yaml"}
	f.say("$ for cluster in eu1 us1 ap1; do")
	f.say("    kubectl --context $cluster apply -f %s", strings.Join(files, " -f "))
	f.say("    sed s/VERSION/v1/ %sworkload.yaml | kubectl --context $cluster apply -f -", fleetFiles)
	f.say("    sed s,PROMETHEUS,http://prometheus.$cluster, %srollout.yaml | kubectl --context $cluster apply -f -", fleetFiles)
	f.say("  done")
	for _, m := range f.members {
		if m.shop, err = openShop(ctx, m.show, fleetVersions(m.context), fleetRate); err != nil {
			return err
		}
		if err := m.deploy(ctx, files); err != nil {
			return fmt.Errorf("cluster %s: %w", m.context, err)
		}
	}
	for _, m := range f.members {
		if err := m.letIn(ctx); err != nil {
			return fmt.Errorf("cluster %s: %w", m.context, err)
		}
	}
	f.say("  In each cluster, %d users send %d requests a second, to the end of the demo.", users, fleetRate)
	return nil
}

// deploy creates the objects of the shop.
func (m *member) deploy(ctx context.Context, files []string) error {
	for _, file := range files {
		if _, err := m.cluster.Kubectl(ctx, "apply", "-f", file); err != nil {
			return err
		}
	}
	manifests, err := workload("v1")
	if err != nil {
		return err
	}
	rollout, err := os.ReadFile(fleetFiles + "rollout.yaml")
	if err != nil {
		return fmt.Errorf("read the Rollout: %w", err)
	}
	for _, text := range []string{manifests, strings.ReplaceAll(string(rollout), "PROMETHEUS", m.shop.prometheus.Address)} {
		if _, err := m.cluster.KubectlStdin(ctx, text, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// letIn waits until the shop serves, and lets users send requests.
func (m *member) letIn(ctx context.Context) error {
	if err := m.await(ctx, stableService, func(st api.RolloutStatus) bool { return healthy(st) && serves(st, "v1") }); err != nil {
		return err
	}
	if _, err := m.cluster.Kubectl(ctx, "wait", "--for=condition=Available", "deployment/shop"); err != nil {
		return err
	}
	if err := m.armed(ctx, "shop"); err != nil {
		return err
	}
	if _, _, err := m.shop.router.Await(ctx, func(t router.Table) bool { return t.Share(stableService) == 1 }); err != nil {
		return err
	}
	m.shop.open(ctx)
	return m.shop.prometheus.Scraped(ctx, m.shop.stable.Address())
}

// serves reports whether a version is the last one that all pods of a cluster ran.
func serves(st api.RolloutStatus, version string) bool {
	return st.Fleet != nil && len(st.Fleet.Served) > 0 && st.Fleet.Served[0].Version == version
}

// plan applies the plan and the FleetRollout, and shows the waves.
func (f *fleet) plan(ctx context.Context) error {
	text, err := os.ReadFile(fleetFiles + "plan.yaml")
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	f.say("$ cat %splan.yaml", fleetFiles)
	f.print(string(text))
	for _, file := range []string{"plan.yaml", "fleetrollout.yaml"} {
		if err := f.kubectl(ctx, "apply", "-f", fleetFiles+file); err != nil {
			return err
		}
	}
	return f.reach(ctx, "Idle", func(st api.FleetRolloutStatus) bool { return st.Phase == api.FleetPhaseIdle })
}

// releaseSecond releases v2 while ap1 is away, to the approval after the first wave.
func (f *fleet) releaseSecond(ctx context.Context) error {
	f.named("ap1").line.CutOff()
	f.say("  The connection of ap1 to the hub is cut. Its own Sluice, its users and its GitOps tool go on.")
	return f.firstWave(ctx, "v2")
}

// firstWave releases a version, up to the approval after the first wave.
func (f *fleet) firstWave(ctx context.Context, version string) error {
	if err := f.command(ctx, "fleet", "release", "shop", "--version", version); err != nil {
		return err
	}
	// Otherwise the version or the wave might come first, and transcripts would differ.
	if err := f.reach(ctx, "Waiting for delivery", func(st api.FleetRolloutStatus) bool {
		return st.Phase == api.FleetPhaseWaiting && st.Reason == "Delivery"
	}); err != nil {
		return err
	}
	if err := f.commit(ctx, version); err != nil {
		return err
	}
	if err := f.command(ctx, "fleet", "status", "shop", "--until-wave", "canary", "--timeout", patience.String()); err != nil {
		return err
	}
	if err := f.reach(ctx, "Waiting for approval", func(st api.FleetRolloutStatus) bool {
		return st.Phase == api.FleetPhaseWaiting && st.Reason == "Approval"
	}); err != nil {
		return err
	}
	return f.command(ctx, "fleet", "get", "shop")
}

func (f *fleet) approveSecond(ctx context.Context) error {
	if err := f.kubectl(ctx, "wait", "fleetmember/ap1", "--for=jsonpath={.status.phase}=Unreachable", "--timeout", patience.String()); err != nil {
		return err
	}
	if err := f.command(ctx, "fleet", "approve", "shop", "--wave", "canary", "--reason", "all metrics of eu1 passed"); err != nil {
		return err
	}
	if err := f.reach(ctx, "Succeeded", func(st api.FleetRolloutStatus) bool { return st.Phase == api.FleetPhaseSucceeded }); err != nil {
		return err
	}
	if err := f.command(ctx, "fleet", "get", "shop"); err != nil {
		return err
	}
	f.say("  GitOps has also delivered v2 to ap1. It is held there, and the pods run v1:")
	return f.named("ap1").stands(ctx)
}

// stands prints the version in the Deployment of a cluster, and the versions that its pods run.
func (m *member) stands(ctx context.Context) error {
	if err := m.kubectl(ctx, "get", "deployment", "shop", "-o", "jsonpath=image: {.spec.template.spec.containers[0].image}, paused: {.spec.paused}"); err != nil {
		return err
	}
	return m.kubectl(ctx, "get", "pods", "-l", "app=shop", "-o", "jsonpath=pods: {.items[*].spec.containers[0].image}")
}

// restore brings ap1 back.
func (f *fleet) restore(ctx context.Context) error {
	ap1 := f.named("ap1")
	ap1.line.Restore()
	if err := ap1.await(ctx, stableService, func(st api.RolloutStatus) bool { return healthy(st) && serves(st, "v2") }); err != nil {
		return err
	}
	if err := f.reach(ctx, "3 Completed", func(st api.FleetRolloutStatus) bool { return st.Counts[api.FleetTargetCompleted] == 3 }); err != nil {
		return err
	}
	return f.command(ctx, "fleet", "targets", "shop")
}

func (f *fleet) releaseThird(ctx context.Context) error { return f.firstWave(ctx, "v3") }

// withdraw approves v3, whose metrics fail in us1.
func (f *fleet) withdraw(ctx context.Context) error {
	if err := f.command(ctx, "fleet", "approve", "shop", "--wave", "canary", "--reason", "all metrics of eu1 passed"); err != nil {
		return err
	}
	var failed *api.MetricStatus
	if err := f.named("us1").await(ctx, stableService, func(st api.RolloutStatus) bool {
		failed = failing(st)
		return failed != nil
	}); err != nil {
		return err
	}
	f.tell(failed.LastTime.Time, "us1: %s: %s", failed.Name, failed.Message)
	for _, m := range []*member{f.named("us1"), f.named("ap1")} {
		_, back, err := m.shop.routed(ctx, 0)
		if err != nil {
			return err
		}
		f.tell(back, "%s: all requests are on the pods of v2; that is %.2f s after the measurement", m.context, max(0, back.Sub(failed.LastTime.Time).Seconds()))
	}
	if err := f.named("eu1").await(ctx, stableService, func(st api.RolloutStatus) bool { return serves(st, "v2") }); err != nil {
		return err
	}
	f.tell(time.Now(), "eu1, which had completed v3: all pods run v2")
	if err := f.withdrawn(ctx); err != nil {
		return err
	}
	f.tell(time.Now(), "v3 is withdrawn from all clusters")
	return nil
}

func (f *fleet) withdrawn(ctx context.Context) error {
	return f.reach(ctx, "Withdrawn", func(st api.FleetRolloutStatus) bool { return st.Phase == api.FleetPhaseWithdrawn })
}

// stay shows that the fleet keeps v2 although GitOps applies v3.
func (f *fleet) stay(ctx context.Context) error {
	if err := f.appliedAgain(ctx, 3); err != nil {
		return err
	}
	if err := f.withdrawn(ctx); err != nil {
		return err
	}
	if err := f.command(ctx, "fleet", "get", "shop"); err != nil {
		return err
	}
	f.say("  In each cluster the GitOps tool has applied v3 again, three times. The change is held, and the pods run v2:")
	for _, m := range f.members {
		if err := m.stands(ctx); err != nil {
			return err
		}
	}
	return f.command(ctx, "fleet", "attention", "-A")
}

// sum stops the users and prints the results of all requests.
func (f *fleet) sum(context.Context) error {
	var errs []error
	for _, m := range f.members {
		r := m.shop.closeDoors()
		for _, version := range []string{"v1", "v2", "v3"} {
			f.say("  %s: %s", m.context, m.shop.account(version))
		}
		if strange := r.Sent - r.Answered[200] - r.Answered[500]; strange > 0 {
			errs = append(errs, fmt.Errorf("requests in %s were lost on the way: %+v", m.context, r))
		}
	}
	return errors.Join(errs...)
}

// reach waits until the FleetRollout has reached a state.
func (f *fleet) reach(ctx context.Context, want string, reached func(api.FleetRolloutStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := dynamic.NewForConfig(f.cluster.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	var last api.FleetRollout
	there := func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		last = api.FleetRollout{}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &last) == nil && reached(last.Status)
	}
	releases := client.Resource(api.FleetRolloutResource()).Namespace(namespace)
	// A watch that ends while it connects logs an error.
	if now, err := releases.Get(ctx, "shop", metav1.GetOptions{}); err == nil && there(now) {
		return nil
	}
	if _, err := controlplane.AwaitObject(ctx, releases, "shop", there); err != nil {
		return fmt.Errorf("wait until the FleetRollout is %s: %w; it is %s (%s): %s", want, err, last.Status.Phase, last.Status.Reason, last.Status.Message)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sluice.dev/sluice/dev/demo/app"
	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
	"sluice.dev/sluice/test/proxy"
)

const (
	fleetFiles = "dev/demo/fleet/"
	// fleetRate is the number of requests a second in each cluster.
	fleetRate = 150
)

// fleet is a hub and its members. The embedded show is the hub.
type fleet struct {
	*show
	nats    *embedded.Server // the NATS of the hub
	members []*member
}

// member is a cluster of the fleet, with its users.
type member struct {
	*show
	shop  *shop
	label string       // of its FleetMember
	line  *proxy.Proxy // the network between the member and the NATS of the hub
	tool  *tool
}

// newFleet returns a hub and three members. Nothing of them runs yet.
func newFleet(out io.Writer, dir string, fail context.CancelCauseFunc) *fleet {
	f := &fleet{show: &show{out: out, dir: dir + "/hub", fail: fail}}
	for _, cluster := range []struct{ name, label string }{{"eu1", "tier=canary"}, {"us1", "tier=standard"}, {"ap1", "tier=standard"}} {
		f.members = append(f.members, &member{show: &show{out: out, dir: dir + "/" + cluster.name, context: cluster.name, fail: fail}, label: cluster.label})
	}
	return f
}

// fleetVersions returns the behaviours of the images in a cluster. Only the requests of us1 meet the mistake of v3.
func fleetVersions(cluster string) map[string]app.Version {
	v3 := app.Version{Name: "v3", Takes: 4 * time.Millisecond}
	if cluster == "us1" {
		v3.FailEvery = 5
	}
	return map[string]app.Version{
		"shop:v1": {Name: "v1", Takes: 4 * time.Millisecond},
		"shop:v2": {Name: "v2", Takes: 4 * time.Millisecond},
		"shop:v3": v3,
	}
}

// runFleet plays the demo of a fleet.
func runFleet(ctx context.Context, out io.Writer, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	f := newFleet(out, dir, fail)
	defer func() { err = errors.Join(context.Cause(ctx), err, f.end(), natsdir.Remove(dir)) }()
	f.say("Sluice demo of a fleet: a hub and the clusters eu1, us1 and ap1, each a real Kubernetes control plane embedded here.")
	f.say("Version 2 goes through them in two waves, with an approval between. Version 3 fails its metrics in the second wave, and all clusters go back.")
	f.say("The API servers, controllers, schedulers, NATS and Prometheus are real. Pods are simulated (kwok): no image runs.")
	f.say("Some times are shorter here, with the usual ones in brackets. There is 1s between two measurements (30s). A cluster soaks for 2s (30m).")
	f.say("Canary pods of a stopped release go after 2s (30s). A GitOps tool applies again after 2s (minutes). A cluster is unreachable after 30s, as always.")
	f.say("Commands without --context are for the hub.")
	for _, scene := range []struct {
		name string
		play func(context.Context) error
	}{
		{"Start four control planes: the hub, eu1, us1 and ap1", f.startClusters},
		{"Install Sluice in each: CRDs, admission policies, RBAC", f.install},
		{"Make the hub, and let three clusters join", f.join},
		{"Start Sluice in each cluster, under the shipped RBAC", f.startParts},
		{"Deploy v1 in each cluster, and let users in", f.deploy},
		{"Write the plan and the FleetRollout", f.plan},
		{"The network of ap1 breaks, and v2 is released", f.releaseSecond},
		{"Approve the wave: us1 gets v2, and ap1 is deferred", f.approveSecond},
		{"The network of ap1 is back, and ap1 follows", f.restore},
		{"Version 3 passes the first wave", f.releaseThird},
		{"Version 3 fails in us1, and the whole fleet goes back", f.withdraw},
		{"GitOps goes on to apply v3, and no cluster runs it", f.stay},
		{"Requests by version", f.sum},
	} {
		if err := f.stage(scene.name, func() error { return scene.play(ctx) }); err != nil {
			return err
		}
	}
	f.times()
	if keep {
		f.howToGoOn()
		<-ctx.Done() // this process runs the NATS of the hub, the users and the GitOps tools
	}
	return nil
}

// howToGoOn prints commands that work while the demo runs.
func (f *fleet) howToGoOn() {
	f.say("\n== It runs until you interrupt it. In another terminal:")
	f.say("export KUBECONFIG=%s", f.cluster.Kubeconfig)
	f.say("bin/sluice fleet get shop -w")
	f.say("bin/sluice fleet attention")
	for _, m := range f.members {
		f.say("bin/sluice get rollout shop --kubeconfig %s", m.cluster.Kubeconfig)
	}
}

// end stops everything, in the reverse order of its start.
func (f *fleet) end() error {
	var errs []error
	for _, m := range f.members {
		if m.tool != nil {
			m.tool.stop()
		}
		if m.shop != nil {
			errs = append(errs, m.shop.close())
		}
		errs = append(errs, m.show.end())
		if m.line != nil {
			m.line.Close()
		}
	}
	errs = append(errs, f.show.end())
	if f.nats != nil {
		f.nats.Close()
	}
	return errors.Join(errs...)
}

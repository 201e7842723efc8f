package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// fleetReleaser is the field manager of spec.release.
const fleetReleaser = "sluice-fleet-release"

type fleetReleaseOptions struct {
	version, plan string
	images        []string
	wait          bool
	timeout       time.Duration
}

func (c *cli) fleetReleaseCommand() *cobra.Command {
	var o fleetReleaseOptions
	release := &cobra.Command{
		Use: "release FLEETROLLOUT", Short: "Release a version over the clusters, wave by wave",
		Long: "Write the version into spec.release of a FleetRollout. The hub then begins its release with the first wave, in the place of the release under\n" +
			"way. Name the version as the workloads carry it, in the annotation sluice.dev/version or as their rollout-id, or by all of their images.\n" +
			"With --plan, the release follows another FleetPlan, for which you need the verb use.\n\n" +
			"With --wait, the command ends as " + c.command + " fleet status does, with the same exit codes. Without it:\n" +
			"  0  the FleetRollout names the version\n  1  it could not be written; the message says why",
		Example: fmt.Sprintf("  %[1]s fleet release checkout -n shop --version v1.42.0\n"+
			"  %[1]s fleet release checkout -n shop --image app=registry.example.com/checkout:v1.42.0 --wait --timeout 4h\n"+
			"  %[1]s fleet release checkout -n shop --version v1.42.1 --plan hotfix", c.command),
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeFleetRollouts,
		RunE: func(cmd *cobra.Command, args []string) error { return c.releaseFleet(cmd.Context(), args[0], o) },
	}
	release.Flags().StringVar(&o.version, "version", "", "the version that the workloads carry")
	release.Flags().StringArrayVar(&o.images, "image", nil, "the image of a container, as CONTAINER=IMAGE; may be given several times")
	release.Flags().StringVar(&o.plan, "plan", "", "follow this FleetPlan from now on")
	release.Flags().BoolVar(&o.wait, "wait", false, "wait until the release has ended or needs a person")
	release.Flags().DurationVar(&o.timeout, "timeout", 0, "how long --wait waits; 0 has no limit")
	_ = release.RegisterFlagCompletionFunc("plan", c.completePlans)
	return release
}

func (c *cli) releaseFleet(ctx context.Context, arg string, o fleetReleaseOptions) error {
	release, err := parseRelease(o.version, o.images)
	switch {
	case err != nil:
		return err
	case release.Key() == "":
		return errors.New("name the version: --version VERSION, or --image CONTAINER=IMAGE for each container")
	}
	h, r, err := c.namedFleetRollout(ctx, arg)
	if err != nil {
		return err
	}
	if r.Spec.Delivery == api.FleetDeliveryPatch && len(release.Images) == 0 {
		return fmt.Errorf("the clusters of %s set the images themselves (delivery Patch), so name them: --image CONTAINER=IMAGE for each container", fullName(r))
	}
	if err := c.checkPlan(ctx, h, r, o.plan); err != nil {
		return err
	}
	before := r
	if r, err = c.writeRelease(ctx, h, r, release, o.plan); err != nil {
		return err
	}
	does := "releases " + fleet.ReleaseText(&release)
	if r.Generation == before.Generation {
		does = "names " + fleet.ReleaseText(&release) + " already"
	}
	fmt.Fprintf(c.out, "fleetrollout.%s/%s %s\n", api.GroupSluice, r.Name, does)
	c.printNext(before, r)
	if !o.wait {
		return nil
	}
	return c.awaitRelease(ctx, h, r, fleet.Wanted{Release: release}, o.timeout)
}

// checkPlan returns an error for a FleetPlan that the FleetRollout cannot use. Without the right to read it, the API server and the hub say so.
func (c *cli) checkPlan(ctx context.Context, h hub, r *api.FleetRollout, name string) error {
	if name == "" {
		return nil
	}
	if len(r.Spec.Waves) > 0 {
		return fmt.Errorf("%s has waves of its own, so it can follow no FleetPlan; replace them first: kubectl edit fleetrollout %s -n %s", fullName(r), r.Name, r.Namespace)
	}
	plan, err := h.readPlan(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no FleetPlan %s; list them with: kubectl get fleetplans", name)
	case err == nil && !slices.Contains(plan.Spec.Namespaces, r.Namespace):
		return fmt.Errorf("the FleetPlan %s is not for the namespace %s; its owner must add it to spec.namespaces", name, r.Namespace)
	}
	return nil
}

// writeRelease writes spec.release, and maybe spec.plan, bound to the version that was read.
func (c *cli) writeRelease(ctx context.Context, h hub, r *api.FleetRollout, release api.FleetRelease, plan string) (*api.FleetRollout, error) {
	name := r.Name
	for {
		patch, err := r.ReleasePatch(release, plan)
		if err != nil {
			return nil, err
		}
		object, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(r.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fleetReleaser})
		switch {
		case err == nil:
			return typed[api.FleetRollout](object)
		case !apierrors.IsConflict(err):
			return nil, c.releaseProblem(ctx, h, r, plan, err)
		}
		if r, err = h.readFleetRollout(ctx, name); err != nil {
			return nil, c.fleetProblem(ctx, h, name, err)
		}
	}
}

// releaseProblem explains why the API server refuses a release.
func (c *cli) releaseProblem(ctx context.Context, h hub, r *api.FleetRollout, plan string, err error) error {
	user, whoErr := whoAmI(ctx, h.config)
	if whoErr != nil {
		user = "USER"
	}
	switch {
	case plan != "" && strings.Contains(err.Error(), "you need the verb use on it"):
		return said(fmt.Sprintf("error: to use the FleetPlan %s in namespace %s, the user %s needs the verb use on it.\n"+
			"The ClusterRole sluice-fleet-app has it: kubectl create rolebinding fleet-app -n %[2]s --clusterrole=sluice-fleet-app --user=%[3]s", plan, r.Namespace, user))
	case apierrors.IsForbidden(err):
		return said(fmt.Sprintf("error: to release a version in %s, the user %s needs patch on fleetrollouts.\n"+
			"The ClusterRoles sluice-fleet-ci, sluice-fleet-app and sluice-fleet-platform have it: kubectl create rolebinding fleet-ci -n %s --clusterrole=sluice-fleet-ci --user=%[2]s",
			fullName(r), user, r.Namespace))
	}
	return c.fleetProblem(ctx, h, r.Name, err)
}

// printNext says what the hub does with a release, and what it needs.
func (c *cli) printNext(before, r *api.FleetRollout) {
	style, key := c.typedStyle(), r.Spec.Release.Key()
	for _, b := range r.Status.Blocked {
		if b.Version == key && !b.Unblocked {
			fmt.Fprintf(c.errors, "This version was withdrawn before, so no cluster gets it until: %s\n", style.FleetCommand("unblock", r, fleet.KeyText(key)))
			return
		}
	}
	if old := before.Status.Release; old != nil && !fleetview.SameRelease(old, r.Spec.Release) && before.Status.Verb == api.FleetVerbRelease && before.Status.Phase != api.FleetPhaseSucceeded {
		fmt.Fprintf(c.errors, "The release of %s goes no further: clusters under way to it go back, and those that have completed keep it until their wave.\n", fleet.ReleaseText(old))
	}
	how := "begins when its workload has this version: let your GitOps tool or pipeline apply it in all clusters. There it is held."
	if r.Spec.Delivery == api.FleetDeliveryPatch {
		how = "sets the images when it has its permit."
	}
	fmt.Fprintln(c.errors, "The first wave begins. Each cluster", how)
	if r.Spec.Paused || r.Status.Paused {
		for _, hint := range style.ResumeCommands(r) {
			fmt.Fprintf(c.errors, "The FleetRollout is paused, so the release holds; %s, type: %s\n", hint.Does, hint.Command)
		}
	}
	fmt.Fprintf(c.errors, "Follow it with: %s\n", style.FleetCommand("status", r))
}

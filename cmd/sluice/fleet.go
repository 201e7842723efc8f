package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/cmd/sluice/internal/fleetview"
	"sluice.dev/sluice/pkg/api"
)

func (c *cli) fleetCommand() *cobra.Command {
	fleet := asParent(&cobra.Command{
		Use: "fleet", Short: "Release one version over many clusters, from the hub of a fleet",
		Long: "Release one version over many clusters, wave by wave. These commands talk to the hub of the fleet: choose it with --context. Only\n" +
			"override talks to a cluster. A FleetRollout on the hub governs the Rollout of the same namespace and name in each cluster.",
		Example: fmt.Sprintf("  %[1]s fleet release checkout -n shop --version v1.42.0\n  %[1]s fleet get checkout -n shop -w\n  %[1]s fleet approve checkout -n shop\n"+
			"  %[1]s fleet attention -A", c.command),
	})
	addGroup(fleet, "Look:", c.fleetListCommand(), c.fleetGetCommand(), c.fleetTargetsCommand(), c.fleetMembersCommand(), c.fleetAttentionCommand(), c.fleetStatusCommand(), c.fleetPlanCommand())
	addGroup(fleet, "Turn a release:", append([]*cobra.Command{c.fleetReleaseCommand()}, c.fleetVerbCommands()...)...)
	addGroup(fleet, "Turn a release in one cluster:", c.fleetOverrideCommand())
	addGroup(fleet, "Add clusters:", c.fleetJoinCommand(), c.fleetHubKeyCommand())
	return fleet
}

// hub is the access of a command to the hub of a fleet.
type hub struct {
	config    *rest.Config
	objects   dynamic.Interface
	namespace string
}

func (c *cli) newHub() (h hub, err error) {
	if h.config, h.namespace, err = c.clusterConfig(); err != nil {
		return h, err
	}
	if h.objects, err = dynamic.NewForConfig(h.config); err != nil {
		return h, fmt.Errorf("make client: %w", err)
	}
	return h, nil
}

// fleetName parses "NAME" and "fleetrollout/NAME".
func fleetName(arg string) (string, error) {
	name := arg
	if kind, rest, ok := strings.Cut(arg, "/"); ok {
		if !isFleetRollout(kind) {
			return "", fmt.Errorf("%q is no kind that this command knows; give the name of a FleetRollout, as NAME or fleetrollout/NAME", kind)
		}
		name = rest
	}
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q names no FleetRollout; give one, as NAME or fleetrollout/NAME", arg)
	}
	return name, nil
}

func isFleetRollout(kind string) bool {
	switch strings.ToLower(kind) {
	case "fleetrollout", "fleetrollouts", "fro", "fleetrollout.sluice.dev", "fleetrollouts.sluice.dev":
		return true
	}
	return false
}

// fleetStyle returns the style of texts about a fleet for the standard output.
func (c *cli) fleetStyle() fleetview.Style {
	s := c.viewStyle()
	return fleetview.Style{Color: s.Color, Unicode: s.Unicode, Command: c.command, Namespaced: c.namespace != "", Context: c.kube.Context}
}

// typedStyle is the style of commands in messages, which name the namespace always.
func (c *cli) typedStyle() fleetview.Style {
	return fleetview.Style{Command: c.command, Namespaced: true, Context: c.kube.Context}
}

// namedFleetRollout returns the FleetRollout that an argument names.
func (c *cli) namedFleetRollout(ctx context.Context, arg string) (h hub, r *api.FleetRollout, err error) {
	name, err := fleetName(arg)
	if err != nil {
		return h, nil, err
	}
	if h, err = c.newHub(); err != nil {
		return h, nil, err
	}
	r, err = h.readFleetRollout(ctx, name)
	return h, r, c.fleetProblem(ctx, h, name, err)
}

func (h hub) readFleetRollout(ctx context.Context, name string) (*api.FleetRollout, error) {
	object, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(h.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[api.FleetRollout](object)
}

// typed converts an object from its general form.
func typed[T any](object *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return into, nil
}

// readObjects lists objects without managed fields, in a namespace or in all.
func (h hub) readObjects(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string) ([]*unstructured.Unstructured, error) {
	list, err := h.objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

// readList lists objects in their typed form.
func readList[T any](ctx context.Context, h hub, resource schema.GroupVersionResource, namespace, selector string) ([]T, error) {
	objects, err := h.readObjects(ctx, resource, namespace, selector)
	if err != nil {
		return nil, err
	}
	return typedList[T](objects)
}

func typedList[T any](objects []*unstructured.Unstructured) ([]T, error) {
	list := make([]T, 0, len(objects))
	for _, object := range objects {
		item, err := typed[T](object)
		if err != nil {
			return nil, err
		}
		list = append(list, *item)
	}
	return list, nil
}

// readMembers returns the FleetMembers with these labels.
func (h hub) readMembers(ctx context.Context, selector string) ([]api.FleetMember, error) {
	return readList[api.FleetMember](ctx, h, api.FleetMemberResource(), "", selector)
}

// readTargets returns the FleetTargets of a FleetRollout.
func (h hub) readTargets(ctx context.Context, r *api.FleetRollout) ([]api.FleetTarget, error) {
	selector := fmt.Sprintf("%s in (%s,%s)", api.LabelFleetRollout, r.Name, r.UID)
	if len(r.Name) > validation.LabelValueMaxLength {
		selector = api.LabelFleetRollout + "=" + string(r.UID)
	}
	all, err := readList[api.FleetTarget](ctx, h, api.FleetTargetResource(), r.Namespace, selector)
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for _, t := range all {
		if owner := metav1.GetControllerOf(&t); owner != nil && owner.UID == r.UID {
			list = append(list, t)
		}
	}
	return list, nil
}

// fleetProblem adds the next thing to do to an error of the hub's API server about a FleetRollout. An empty name stands for a list of objects.
func (c *cli) fleetProblem(ctx context.Context, h hub, name string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil || !errors.As(err, &status):
		return err
	case api.Unserved(err):
		return said(fmt.Sprintf("error: this cluster does not serve FleetRollouts, so it is not the hub of a fleet. Choose the hub with --context, or install Sluice there: "+
			"%s install --print | kubectl apply --server-side -f -", c.command))
	case apierrors.IsNotFound(err) && name != "":
		return said(c.noFleetRollout(ctx, h, name))
	case apierrors.IsForbidden(err):
		role := "fleet-viewer"
		if details := status.Status().Details; details != nil && details.Kind != api.FleetRolloutResource().Resource && details.Kind != api.FleetTargetResource().Resource {
			role = "fleet-clusters"
		}
		return said(fmt.Sprintf("Error from server (Forbidden): %s.\nThe ClusterRole sluice-%[2]s has the rights to look: kubectl create clusterrolebinding %[2]s --clusterrole=sluice-%[2]s --user=USER",
			strings.TrimSuffix(status.Status().Message, "."), role))
	}
	return err
}

// noFleetRollout says that a FleetRollout does not exist: where there is one of that name, or how to create it.
func (c *cli) noFleetRollout(ctx context.Context, h hub, name string) string {
	text := fmt.Sprintf("Error from server (NotFound): there is no FleetRollout %s in namespace %s.", name, h.namespace)
	found, err := h.objects.Resource(api.FleetRolloutResource()).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err == nil && len(found.Items) > 0 {
		var elsewhere []string
		for _, r := range found.Items {
			elsewhere = append(elsewhere, r.GetNamespace())
		}
		return fmt.Sprintf("%s There is one in %s: add -n %s.", text, strings.Join(elsewhere, ", "), elsewhere[0])
	}
	if h.memberless(ctx) {
		return text + " " + c.chooseHub()
	}
	if here, err := h.objects.Resource(api.FleetRolloutResource()).Namespace(h.namespace).List(ctx, metav1.ListOptions{}); err == nil && len(here.Items) > 0 {
		var names []string
		for _, r := range here.Items {
			names = append(names, r.GetName())
		}
		text += " There are: " + strings.Join(names, ", ") + "."
	}
	return fmt.Sprintf(`%s Create it on the hub, with the name of a FleetPlan, and name it in spec.fleet of the Rollout in each cluster:
kubectl create -f - <<END
{"apiVersion": "sluice.dev/v1alpha1", "kind": "FleetRollout", "metadata": {"name": %q, "namespace": %q}, "spec": {"plan": "PLAN"}}
END`, text, name, h.namespace)
}

// memberless reports whether the cluster has no FleetMember, so that it is probably not the hub of a fleet.
func (h hub) memberless(ctx context.Context) bool {
	list, err := h.objects.Resource(api.FleetMemberResource()).List(ctx, metav1.ListOptions{Limit: 1})
	return err == nil && len(list.Items) == 0
}

// chooseHub says what to do with a cluster that has no FleetMember.
func (c *cli) chooseHub() string {
	return fmt.Sprintf("This cluster has no FleetMembers. If it is not the hub of the fleet, choose the hub with --context. If it is, add a cluster with: %s fleet join", c.command)
}

// printFleetObjects writes a value as json or yaml, or the names of the objects in it.
func (c *cli) printFleetObjects(output string, value any, objects ...*unstructured.Unstructured) error {
	if output != "name" {
		return c.printValues(output, value)
	}
	for _, o := range objects {
		fmt.Fprintf(c.out, "%s.%s/%s\n", strings.ToLower(o.GetKind()), api.GroupSluice, o.GetName())
	}
	return nil
}

// checkOutput returns an error for a form of output that a command does not have.
func checkOutput(output string, forms ...string) error {
	for _, form := range append(forms, "") {
		if output == form {
			return nil
		}
	}
	return fmt.Errorf("--output %q: use %s", output, joinForms(forms))
}

func joinForms(forms []string) string {
	last := len(forms) - 1
	if last == 0 {
		return forms[0]
	}
	return strings.Join(forms[:last], ", ") + " or " + forms[last]
}

// outputFlag registers -o.
func outputFlag(cmd *cobra.Command, output *string, usage string, forms ...string) {
	cmd.Flags().StringVarP(output, "output", "o", "", strings.TrimSpace(joinForms(forms)+" "+usage))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

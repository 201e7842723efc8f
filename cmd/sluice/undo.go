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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// undoer is the field manager of restored templates.
const undoer = "sluice-undo"

type undoOptions struct {
	revision int64
	dryRun   bool
}

func (c *cli) undoCommand() *cobra.Command {
	var o undoOptions
	undo := &cobra.Command{
		Use: "undo ROLLOUT", Short: "Give the workload an older pod template again",
		Long: "Give the workload of a Rollout an older pod template again, as kubectl rollout undo does, and tell what follows. During a release\n" +
			"that is the stable version's: the release ends, traffic first. Otherwise it is the one before the present one, which is a new release\n" +
			"with all its steps. --to-revision takes any that " + c.command + " history shows. Nothing else of the workload changes but its rollout-id\n" +
			"and its change-cause.\n" +
			"Where manifests are applied from a repository, put the old version there as well, or it will not last.",
		Example: fmt.Sprintf("  %[1]s undo checkout -n shop\n  %[1]s undo rollout/checkout --to-revision 3\n  %[1]s undo checkout --dry-run", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := rolloutName(args)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("to-revision") && o.revision < 1 {
				return fmt.Errorf("--to-revision %d: give the number of a revision that %s history %s shows", o.revision, c.command, name)
			}
			return c.undoRollout(cmd.Context(), name, o)
		},
	}
	undo.Flags().Int64Var(&o.revision, "to-revision", 0, "the revision to go back to (default: the stable version during a release, else the one before)")
	undo.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the API server check it, and change nothing")
	_ = undo.RegisterFlagCompletionFunc("to-revision", c.completeRevisions)
	return undo
}

func (c *cli) undoRollout(ctx context.Context, name string, o undoOptions) error {
	a, err := c.newAccess()
	if err != nil {
		return err
	}
	var first string
	for again := false; ; again = true {
		r, err := a.read.ReadRollout(ctx, a.namespace, name)
		if err != nil {
			return c.notFound(ctx, a.namespace, name, err)
		}
		resource, w, err := a.readRevisions(ctx, r)
		if err != nil {
			return err
		}
		if again && w.Digest() != first {
			return fmt.Errorf("not undone, the template of %s %s was changed meanwhile; look at it with: %s get rollout %s -n %s", w.Object.GetKind(), w.Object.GetName(), c.command, name, a.namespace)
		}
		first = w.Digest()
		to, err := w.ChooseRevision(o.revision, stableOf(r))
		if errors.Is(err, revision.ErrSame) {
			return fmt.Errorf("%w. What there is, shows: %s history %s -n %s", err, c.command, name, a.namespace)
		}
		if err != nil {
			return err
		}
		if to.Is(releasedFrom(r)) {
			to.RolloutID = w.Object.GetAnnotations()[api.AnnotationStableRolloutID]
		}
		if err = a.giveTemplate(ctx, resource, w, to, o.dryRun); err == nil {
			c.printUndone(r, resource, w, to, o.dryRun)
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// readRevisions reads the workload of a Rollout with its revisions.
func (a access) readRevisions(ctx context.Context, r *api.Rollout) (schema.GroupVersionResource, revision.Workload, error) {
	ref := r.Spec.Workload()
	if ref == nil {
		return schema.GroupVersionResource{}, revision.Workload{}, fmt.Errorf("Rollout %s/%s names no workload; set spec.workloadRef", r.Namespace, r.Name)
	}
	resource, err := a.read.ResourceOf(*ref)
	if err != nil {
		return resource, revision.Workload{}, err
	}
	w, err := revision.ReadWorkload(ctx, a.write, resource, r.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: create it, or correct spec.workloadRef of Rollout %s/%s", err, r.Namespace, r.Name)
	}
	return resource, w, err
}

// stableOf returns the version that a rollback of the current release restores. It returns "" without a release, or when the new version has already replaced
// the stable one.
func stableOf(r *api.Rollout) string {
	if m := r.Status.Sluice; m != nil && m.FinaliseReason == api.FinaliseSuccess {
		return ""
	}
	return releasedFrom(r)
}

// releasedFrom returns the version that ran before the release under way. It returns "" when no release is under way.
func releasedFrom(r *api.Rollout) string {
	if m := r.Status.Sluice; rollout.State(m.GetState()).Releasing() {
		return m.StableRevision
	}
	return ""
}

func (a access) giveTemplate(ctx context.Context, resource schema.GroupVersionResource, w revision.Workload, to revision.Revision, dryRun bool) error {
	patch, err := w.TemplatePatch(to)
	if err != nil {
		return fmt.Errorf("write patch: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: undoer}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = a.write.Resource(resource).Namespace(a.namespace).Patch(ctx, w.Object.GetName(), types.JSONPatchType, patch, options)
	return err
}

// printUndone prints the change, and its consequences.
func (c *cli) printUndone(r *api.Rollout, resource schema.GroupVersionResource, w revision.Workload, to revision.Revision, dryRun bool) {
	note := ""
	if dryRun {
		note = " (dry run)"
	}
	kind := strings.ToLower(w.Object.GetKind())
	if resource.Group != "" {
		kind += "." + resource.Group
	}
	fmt.Fprintf(c.out, "%s/%s rolled back to revision %d%s\n", kind, w.Object.GetName(), to.Number, note)
	if images := to.Images(); len(images) > 0 {
		fmt.Fprintf(c.errors, "It asks for %s again.\n", strings.Join(images, ", "))
	}
	switch is, was := w.RestoredID(to), api.RolloutID(w.Object); {
	case was == "":
	case is == "":
		fmt.Fprintf(c.errors, "The rollout-id %s belongs to the version that you undo, so this command removes it.\n", was)
	default:
		fmt.Fprintf(c.errors, "Its rollout-id is %s again.\n", is)
	}
	fmt.Fprintln(c.errors, c.whatFollows(r, resource, w, to))
}

func (c *cli) whatFollows(r *api.Rollout, resource schema.GroupVersionResource, w revision.Workload, to revision.Revision) string {
	watch := fmt.Sprintf("Follow it with: %s status %s -n %s", c.command, r.Name, r.Namespace)
	native := goesOut(resource, w)
	spec, err := rollout.Parse(r)
	inBatches, _ := spec.InBatches()
	switch stable, before := stableOf(r), releasedFrom(r); {
	case stable == "" && before != "" && to.Is(before):
		return "That is the version before: the release that is being completed is given up. The pods that serve stay until pods of that version are ready. " + watch
	case err == nil && inBatches && stable != "" && to.Is(stable) && rollout.State(r.Status.Sluice.GetState()) != rollout.StateAborted:
		return "That is the stable version: its pods come back in batches, from step 1 on. " + watch
	case stable != "" && to.Is(stable):
		return "That is the stable version: the release is given up, and traffic goes back first. " + watch
	case stable != "":
		return "Another version replaces the one under way: its release begins with step 1. " + watch
	case r.Status.Phase != api.PhaseHealthy && r.Status.Phase != api.PhaseProgressing:
		return fmt.Sprintf("The Rollout does not hold the workload (its phase is %q), %s", r.Status.Phase, native)
	case onDelete(w):
		return "The workload is of the update type OnDelete, " + native
	}
	return "This is a release of its own: it begins with step 1. " + watch
}

// goesOut describes how an unmanaged workload rolls out a template.
func goesOut(resource schema.GroupVersionResource, w revision.Workload) string {
	name, namespace := w.Object.GetName(), w.Object.GetNamespace()
	switch {
	case onDelete(w):
		return "so that each pod that is deleted comes back with the template."
	case resource.Group == "apps":
		return fmt.Sprintf("so that the template goes out at once. Follow it with: kubectl rollout status %s/%s -n %s", strings.ToLower(w.Object.GetKind()), name, namespace)
	}
	return fmt.Sprintf("so that the template goes out at once. Follow it with: kubectl get %s %s -n %s -w", resource.GroupResource(), name, namespace)
}

// onDelete reports whether a workload replaces only deleted pods.
func onDelete(w revision.Workload) bool {
	text, _, _ := unstructured.NestedString(w.Object.Object, "spec", "updateStrategy", "type")
	return text == "OnDelete"
}

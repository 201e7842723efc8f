package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/cmd/sluice/internal/history"
	"sluice.dev/sluice/cmd/sluice/internal/revision"
	"sluice.dev/sluice/pkg/api"
)

type historyOptions struct {
	release, revision int64
	output            string
}

func (c *cli) historyCommand() *cobra.Command {
	var o historyOptions
	history := &cobra.Command{
		Use: "history ROLLOUT", Short: "Show the releases that a Rollout had, and the revisions of its workload",
		Long: "Show the releases of a Rollout that are recorded: how each ended, its images, when it began and what it took, the furthest step it came\n" +
			"to, and who approved; and below the revisions of the workload, which undo can go back to. --release shows one release in detail,\n" +
			"--revision one revision with its pod template. The records are the RolloutHistory objects of the Rollout, which -o json and -o yaml print.",
		Example: fmt.Sprintf("  %[1]s history checkout -n shop\n  %[1]s history checkout --release 3\n  %[1]s history rollout/checkout --revision 2\n  %[1]s history checkout -o json", c.command),
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showHistory(cmd.Context(), args, o)
		},
	}
	history.Flags().Int64Var(&o.release, "release", 0, "show this release in detail")
	history.Flags().Int64Var(&o.revision, "revision", 0, "show this revision of the workload in detail")
	history.Flags().StringVarP(&o.output, "output", "o", "", "json, yaml or name of the records instead of tables")
	history.MarkFlagsMutuallyExclusive("release", "revision")
	history.MarkFlagsMutuallyExclusive("output", "revision")
	_ = history.RegisterFlagCompletionFunc("release", c.completeReleases)
	_ = history.RegisterFlagCompletionFunc("revision", c.completeRevisions)
	_ = history.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "name"}, cobra.ShellCompDirectiveNoFileComp))
	return history
}

func (c *cli) showHistory(ctx context.Context, args []string, o historyOptions) error {
	if !slices.Contains([]string{"", "json", "yaml", "name"}, o.output) {
		return fmt.Errorf("--output %q: use json, yaml or name", o.output)
	}
	a, r, err := c.namedRollout(ctx, args)
	if err != nil {
		return err
	}
	objects, err := a.recordObjects(ctx, r)
	if err != nil {
		return err
	}
	records, err := typedRecords(objects)
	if err != nil {
		return err
	}
	if o.output != "" {
		return c.printRecords(r, objects, records, o)
	}
	_, w, err := a.readRevisions(ctx, r)
	if o.revision != 0 {
		if err != nil {
			return err
		}
		return c.showRevision(r, w, records, o.revision)
	}
	if err != nil {
		fmt.Fprintf(c.errors, "The revisions of the workload cannot be shown: %v\n", err)
	}
	if o.release != 0 {
		record, err := c.recordOf(r, records, o.release)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, strings.Join(history.ReleaseDetail(record, w.Revisions, time.Now()), "\n"))
		return err
	}
	return c.showTables(r, w, records)
}

func (c *cli) showTables(r *api.Rollout, w revision.Workload, records []*api.RolloutHistory) error {
	now := time.Now()
	if len(records) == 0 {
		fmt.Fprintf(c.errors, "No release of Rollout %s/%s is recorded.\n", r.Namespace, r.Name)
	} else if err := history.WriteReleases(c.out, records, w.Revisions, now); err != nil {
		return err
	}
	if len(w.Revisions) == 0 {
		return nil
	}
	if len(records) > 0 {
		fmt.Fprintln(c.out)
	}
	return history.WriteRevisions(c.out, w, stableOf(r), now)
}

func (c *cli) showRevision(r *api.Rollout, w revision.Workload, records []*api.RolloutHistory, number int64) error {
	i := slices.IndexFunc(w.Revisions, func(r revision.Revision) bool { return r.Number == number })
	if i < 0 {
		return fmt.Errorf("%s %s has no revision %d; list them with: %s history %s -n %s", w.Object.GetKind(), w.Object.GetName(), number, c.command, r.Name, r.Namespace)
	}
	text, err := history.RevisionDetail(w.Revisions[i], w, stableOf(r), records)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, strings.Join(text, "\n"))
	return err
}

func (c *cli) recordOf(r *api.Rollout, records []*api.RolloutHistory, release int64) (*api.RolloutHistory, error) {
	for _, record := range records {
		if record.Status.Epoch == release {
			return record, nil
		}
	}
	return nil, fmt.Errorf("release %d of Rollout %s/%s is not recorded; list what is with: %s history %s -n %s", release, r.Namespace, r.Name, c.command, r.Name, r.Namespace)
}

func (c *cli) printRecords(r *api.Rollout, objects []*unstructured.Unstructured, records []*api.RolloutHistory, o historyOptions) error {
	if o.release != 0 {
		record, err := c.recordOf(r, records, o.release)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == record.Name })
		return c.printValues(o.output, objects[i].Object, objects[i])
	}
	return c.printValues(o.output, listOf(objects), objects...)
}

func (a access) readRecords(ctx context.Context, r *api.Rollout) ([]*api.RolloutHistory, error) {
	objects, err := a.recordObjects(ctx, r)
	if err != nil {
		return nil, err
	}
	return typedRecords(objects)
}

// recordObjects returns the records of a Rollout, without managed fields.
func (a access) recordObjects(ctx context.Context, r *api.Rollout) ([]*unstructured.Unstructured, error) {
	list, err := a.write.Resource(api.RolloutHistoryResource()).Namespace(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelRolloutUID + "=" + string(r.UID)})
	if api.Unserved(err) {
		return nil, errors.New("this cluster does not serve RolloutHistories, so that nothing is recorded. Install their CRD: sluice install --print --part crds | kubectl apply --server-side -f -")
	}
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

// typedRecords converts the records, oldest release first.
func typedRecords(objects []*unstructured.Unstructured) ([]*api.RolloutHistory, error) {
	var records []*api.RolloutHistory
	for _, o := range objects {
		record := &api.RolloutHistory{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, record); err != nil {
			return nil, fmt.Errorf("read RolloutHistory %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		records = append(records, record)
	}
	history.SortRecords(records)
	return records, nil
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/release"
)

// codeFailed is the exit code for a release that did not succeed. Commands have the other codes too: codeRefused when the release needs an action,
// codeUndecided when it has not ended in time.
const codeFailed = 2

const statusCodes = `Exit codes:
  0  the release is complete, or there was none; with --until-paused also: it waits for approval
  1  that cannot be told: no such Rollout, no answer, or the Rollout is disabled
  2  the release was aborted, rolled back or given up
  3  it stands still until a user acts; with --until-paused or --watch=false only
  4  it has not ended within --timeout`

type statusOptions struct {
	watch, untilPaused bool
	timeout            time.Duration
}

func (c *cli) statusCommand() *cobra.Command {
	var o statusOptions
	status := &cobra.Command{
		Use: "status ROLLOUT", Short: "Wait until a release has ended, and say how",
		Long: "Wait until the release of a Rollout has ended, and say how, on standard output and with the exit code. Progress goes to standard error.\n" +
			"A change of the workload that no executor has seen yet counts as a release that begins. If a newer version replaces the version under\n" +
			"way, the command waits for its release. With --watch=false it prints the present state of the release and ends.\n\n" + statusCodes,
		Example: fmt.Sprintf("  kubectl set image deployment/checkout app=registry.example.com/checkout:v2 -n shop\n  %[1]s status checkout -n shop --until-paused --timeout 10m\n"+
			"  %[1]s promote checkout -n shop\n  %[1]s status checkout -n shop --timeout 30m", c.command),
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeRollouts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.rolloutStatus(cmd.Context(), args, o)
		},
	}
	status.Flags().BoolVarP(&o.watch, "watch", "w", true, "wait; with --watch=false say how it is now")
	status.Flags().BoolVar(&o.untilPaused, "until-paused", false, "wait no longer than until a user has to act: to approve a step, or to mend what holds the release")
	status.Flags().DurationVar(&o.timeout, "timeout", 0, "how long to wait; 0 has no limit")
	return status
}

func (c *cli) rolloutStatus(ctx context.Context, args []string, o statusOptions) error {
	a, r, err := c.namedRollout(ctx, args)
	if err != nil {
		return err
	}
	kind, text := release.StandingOf(r, a.readWorkloadStatus(ctx, r), c.command)
	if !o.watch || o.isEnd(kind) {
		fmt.Fprintln(c.out, text)
		return standingError(kind)
	}
	err = c.showProgress(ctx, a.read, r.Namespace, r.Name, o.timeout, fmt.Sprintf("the release of Rollout %s/%s has not ended", r.Namespace, r.Name), func(now *api.Rollout) (string, bool, error) {
		kind, text = release.StandingOf(now, a.readWorkloadStatus(ctx, now), c.command)
		return text, o.isEnd(kind), nil
	})
	if err != nil {
		return err
	}
	return standingError(kind)
}

// isEnd reports whether the wait is over.
func (o statusOptions) isEnd(kind release.Standing) bool {
	switch kind {
	case release.Complete, release.Failed, release.Disabled:
		return true
	case release.Waiting, release.Stuck:
		return o.untilPaused
	}
	return false
}

// standingError returns the exit code for the standing of a release. The caller has printed the message.
func standingError(kind release.Standing) error {
	switch kind {
	case release.Failed:
		return outcome{codeFailed, ""}
	case release.Stuck:
		return outcome{codeRefused, ""}
	case release.Disabled:
		return outcome{1, ""}
	}
	return nil
}

// readWorkloadStatus returns the status of the workload of a Rollout. Without the right to read it, the command relies on the Rollout alone.
func (a access) readWorkloadStatus(ctx context.Context, r *api.Rollout) release.WorkloadStatus {
	ref := r.Spec.Workload()
	if ref == nil {
		return release.WorkloadStatus{}
	}
	resource, err := a.read.ResourceOf(*ref)
	if err != nil {
		return release.WorkloadStatus{}
	}
	object, err := a.write.Resource(resource).Namespace(r.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return release.WorkloadStatus{}
	}
	_, held := object.GetAnnotations()[api.AnnotationInProgressing]
	return release.WorkloadStatus{Known: true, Generation: object.GetGeneration(), Held: held}
}

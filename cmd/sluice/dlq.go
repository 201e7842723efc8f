package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/queue"
)

type dlqOptions struct {
	output, cluster, task string
	spaces, all           bool
	nats                  *component.NATSFlags
}

func (c *cli) dlqCommand() *cobra.Command {
	var o dlqOptions
	dlq := asParent(&cobra.Command{
		Use: "dlq", Aliases: []string{"dead-letters"}, Short: "Show the dead letters of work that failed, and retry it",
		Long: "Show the dead letters of the stream SLUICE_DLQ: Rollouts whose runs fail again and again (Failing: they are still tried, every minute or so)\n" +
			"or killed whichever executor took them up (Abandoned: they are left alone until something about them changes, or until they are retried).\n" +
			"The measurements of a Rollout are a task of their own (analysis; the other task is release). Analyzers do it, and it has letters of its own.\n" +
			"The work for a TrafficRouting is a task as well (routing); its letters have the name of the TrafficRouting.\n" +
			"So is the work for a FleetRollout (fleet).\n" +
			"A letter is removed by the first run that succeeds, by retry, or after seven days.",
		Example: fmt.Sprintf("  %[1]s dlq list -A\n  %[1]s dlq show checkout -n shop\n  %[1]s dlq retry checkout -n shop", c.command),
	})
	flags := dlq.PersistentFlags()
	flags.StringVar(&o.cluster, "cluster", "", "look at this cluster only, by its name on NATS")
	flags.StringVar(&o.task, "task", "", "look at letters of this task only: release, analysis, routing or fleet")
	_ = dlq.RegisterFlagCompletionFunc("task", cobra.FixedCompletions([]string{taskRelease, queue.TaskAnalysis, queue.TaskRouting, queue.TaskFleet}, cobra.ShellCompDirectiveNoFileComp))
	o.nats = component.AddNATSFlags(flags, &c.kube)
	dlq.AddCommand(c.dlqListCommand(&o), c.dlqShowCommand(&o), c.dlqRetryCommand(&o))
	return dlq
}

// taskRelease is the name of queue.TaskRelease for users.
const taskRelease = "release"

func taskName(k queue.Key) string { return cmp.Or(k.Task, taskRelease) }

// ofTask returns the letters of the task in --task.
func (o *dlqOptions) ofTask(letters []queue.DeadLetter) ([]queue.DeadLetter, error) {
	switch o.task {
	case "":
		return letters, nil
	case taskRelease, queue.TaskAnalysis, queue.TaskRouting, queue.TaskFleet:
		return slices.DeleteFunc(letters, func(l queue.DeadLetter) bool { return taskName(l.Key) != o.task }), nil
	}
	return nil, fmt.Errorf("--task %q: use %s, %s, %s or %s", o.task, taskRelease, queue.TaskAnalysis, queue.TaskRouting, queue.TaskFleet)
}

func (o *dlqOptions) addOutput(cmd *cobra.Command, usage string, forms ...string) {
	cmd.Flags().StringVarP(&o.output, "output", "o", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, form := range append(forms, "") {
			if o.output == form {
				return nil
			}
		}
		last := len(forms) - 1
		return fmt.Errorf("--output %q: use %s or %s", o.output, strings.Join(forms[:last], ", "), forms[last])
	}
}

func (c *cli) dlqListCommand(o *dlqOptions) *cobra.Command {
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the Rollouts that have a dead letter", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withLetters(cmd.Context(), o, func(_ *queue.Queue, letters []queue.DeadLetter, namespace string) error {
				if len(letters) == 0 && (o.output == "" || o.output == "wide") {
					fmt.Fprintln(c.errors, noLettersIn(namespace))
					return nil
				}
				return c.printLetters(letters, o)
			})
		},
	}
	o.addOutput(list, "wide, json, yaml or name instead of the table", "wide", "json", "yaml", "name")
	list.Flags().BoolVarP(&o.spaces, "all-namespaces", "A", false, "list the dead letters of all namespaces")
	return list
}

func (c *cli) dlqShowCommand(o *dlqOptions) *cobra.Command {
	show := &cobra.Command{
		Use: "show NAME", Short: "Show all that is known about the dead letter of a Rollout", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: c.completeLetters(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := rolloutName(args)
			if err != nil {
				return err
			}
			return c.withLetters(cmd.Context(), o, func(_ *queue.Queue, letters []queue.DeadLetter, namespace string) error {
				letter, err := c.letterOf(letters, namespace, name)
				if err != nil {
					return err
				}
				return c.printLetter(letter, o.output)
			})
		},
	}
	o.addOutput(show, "json or yaml instead of text", "json", "yaml")
	return show
}

func (c *cli) dlqRetryCommand(o *dlqOptions) *cobra.Command {
	retry := &cobra.Command{
		Use: "retry NAME... | --all", Short: "Retry the work of dead letters, and remove the letters",
		Long: "Ask an executor to look at a Rollout at once, or an analyzer to measure it, and remove its dead letter. Work that fails again gets a new letter:\n" +
			"after ten failures in a row, or when the executors or analyzers that took it up have died.",
		Example:           fmt.Sprintf("  %[1]s dlq retry checkout -n shop\n  %[1]s dlq retry --all -A", c.command),
		ValidArgsFunction: c.completeLetters(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.all && len(args) > 0:
				return errors.New("names and --all do not go together; give one of them")
			case !o.all && len(args) == 0:
				return fmt.Errorf("nothing to retry is named; give names, or --all. List what there is with: %s dlq list", c.command)
			case o.spaces && !o.all:
				return errors.New("names and --all-namespaces do not go together; give the namespace with -n")
			}
			return c.withLetters(cmd.Context(), o, func(q *queue.Queue, letters []queue.DeadLetter, namespace string) error {
				if !o.all {
					var err error
					if letters, err = c.lettersOf(letters, namespace, args); err != nil {
						return err
					}
				}
				if len(letters) == 0 {
					fmt.Fprintln(c.errors, noLettersIn(namespace))
				}
				return c.retryLetters(cmd.Context(), q, letters)
			})
		},
	}
	retry.Flags().BoolVar(&o.all, "all", false, "retry all that have a dead letter in the namespace")
	retry.Flags().BoolVarP(&o.spaces, "all-namespaces", "A", false, "with --all, the dead letters of all namespaces")
	return retry
}

// withLetters reads the letters that the options select. namespace is empty for all namespaces.
func (c *cli) withLetters(ctx context.Context, o *dlqOptions, do func(q *queue.Queue, letters []queue.DeadLetter, namespace string) error) error {
	namespace := ""
	if !o.spaces {
		var err error
		if namespace, err = c.workingNamespace(); err != nil {
			return err
		}
	}
	q, err := o.nats.ConnectQueue(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	letters, err := q.ListDeadLetters(ctx, o.cluster, namespace)
	if err == nil {
		letters, err = o.ofTask(letters)
	}
	if err != nil {
		return err
	}
	return do(q, letters, namespace)
}

// lettersAbout returns the letters about one Rollout of one cluster: about its release, its measurements, or both.
func (c *cli) lettersAbout(letters []queue.DeadLetter, namespace, name string) (found []queue.DeadLetter, err error) {
	var clusters []string
	for _, l := range letters {
		if l.Key.Name == name {
			found, clusters = append(found, l), append(clusters, l.Key.Cluster)
		}
	}
	switch clusters = slices.Compact(clusters); len(clusters) {
	case 0:
		return nil, fmt.Errorf("there is no dead letter about Rollout %s in namespace %s; list them with: %s dlq list -A", name, namespace, c.command)
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("there are dead letters about a Rollout %s in several clusters: %s; choose one with --cluster", name, strings.Join(clusters, ", "))
}

func (c *cli) letterOf(letters []queue.DeadLetter, namespace, name string) (queue.DeadLetter, error) {
	found, err := c.lettersAbout(letters, namespace, name)
	if err != nil {
		return queue.DeadLetter{}, err
	}
	if len(found) > 1 {
		return queue.DeadLetter{}, fmt.Errorf("there are dead letters about both the release and the analysis of Rollout %s; choose one with --task", name)
	}
	return found[0], nil
}

// lettersOf returns the letters of all names, or only an error.
func (c *cli) lettersOf(letters []queue.DeadLetter, namespace string, names []string) (found []queue.DeadLetter, err error) {
	for _, arg := range names {
		name, err := rolloutName([]string{arg})
		if err != nil {
			return nil, err
		}
		about, err := c.lettersAbout(letters, namespace, name)
		if err != nil {
			return nil, err
		}
		found = append(found, about...)
	}
	return found, nil
}

// retryLetters continues after an error, because the other letters are independent.
func (c *cli) retryLetters(ctx context.Context, q *queue.Queue, letters []queue.DeadLetter) error {
	var failed error
	for _, l := range letters {
		err := q.RetryDeadLetter(ctx, l.Key)
		switch {
		case errors.Is(err, queue.ErrNoDeadLetter):
			fmt.Fprintf(c.errors, "The %s of Rollout %s/%s has no dead letter any more; nothing is to be done about it.\n", taskName(l.Key), l.Key.Namespace, l.Key.Name)
		case err != nil:
			failed = errors.Join(failed, err)
		default:
			fmt.Fprintf(c.out, "%s is retried\n", letterName(l.Key))
		}
	}
	return failed
}

func noLettersIn(namespace string) string {
	if namespace == "" {
		return "No dead letters: all work gets done."
	}
	return fmt.Sprintf("No dead letters in namespace %s; -A looks in all.", namespace)
}

// completeLetters completes the Rollouts that have a letter.
func (c *cli) completeLetters(o *dlqOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionDeadline())
		defer cancel()
		var names []string
		// A shell does not show errors.
		_ = c.withLetters(ctx, o, func(_ *queue.Queue, letters []queue.DeadLetter, _ string) error {
			for _, l := range letters {
				names = append(names, l.Key.Name)
			}
			names = slices.Compact(names)
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

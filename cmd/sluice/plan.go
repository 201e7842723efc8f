package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/simulate"
)

const planCodes = `Exit codes:
  0  the plan can be carried out
  1  a release would be held or refused
  2  a file or the cluster cannot be read, or the command line is wrong`

type planOptions struct {
	files             []string
	live, output      string
	luaDir, configMap string
}

func (c *cli) planCommand() *cobra.Command {
	var o planOptions
	command := &cobra.Command{
		Use: "plan -f FILE... | --live NAME", Short: "Show what a release would do to every object at every step, and touch nothing",
		Long: "Play a release in memory with the code that carries it out in a cluster. Show each changed object as a diff against the step before, each\n" +
			"wait, and each refusal. The plan assumes that pods get ready at once, metrics pass, and steps are approved.\n\n" +
			"With -f: manifests of the Rollout, its workload, Services and gateway objects, and maybe a TrafficRouting, AnalysisTemplates and the ConfigMap\n" +
			"with scripts; files, directories, or - for the standard input. With --live: the Rollout of that name as its cluster has it, from which is\n" +
			"read only; a release under way is played to its end. The new version is a second manifest of the workload (with --live: the first); without\n" +
			"one it is made up.\n\n" + planCodes,
		Example: fmt.Sprintf("  %[1]s plan -f manifests/\n"+
			"  %[1]s plan -f rollout.yaml -f workload.yaml -f route.yaml --lua-dir my_scripts\n"+
			"  %[1]s plan --live checkout -n shop -o json\n"+
			"  %[1]s plan --live checkout -n shop -f new-version.yaml", c.command),
		Args:              usageArgs(cobra.NoArgs),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runPlan(cmd.Context(), cmd.InOrStdin(), o)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unreadableError(err) })
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or directory with manifests, - for the standard input; may be given several times")
	flags.StringVar(&o.live, "live", "", "name of a Rollout in the cluster, from which is read only")
	flags.StringVar(&o.luaDir, "lua-dir", "", "directory with scripts, <group>/<Kind>/trafficRouting.lua, before the built-in ones")
	flags.StringVar(&o.configMap, "script-configmap", api.ScriptNamespace+"/"+api.ScriptConfigMap, "namespace/name of the ConfigMap with scripts")
	flags.StringVarP(&o.output, "output", "o", "", "json or yaml instead of text")
	_ = command.RegisterFlagCompletionFunc("live", c.completeRollouts)
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.MarkFlagDirname("lua-dir")
	return command
}

func (c *cli) runPlan(ctx context.Context, stdin io.Reader, o planOptions) error {
	plays, err := c.simulationOptions(stdin, o)
	if err != nil {
		return unreadableError(err)
	}
	var reports []*simulate.Report
	refused := false
	for _, play := range plays {
		report, err := simulate.SimulateRelease(ctx, play)
		if err != nil {
			return outcome{codeUnreadable, errorMessage(err)}
		}
		reports = append(reports, report)
		refused = refused || len(report.Refusals) > 0
	}
	if err := printEach(c, "plans", reports, planText, o.output); err != nil {
		return err
	}
	if refused {
		return outcome{1, ""}
	}
	return nil
}

// simulationOptions returns the releases to simulate: of each Rollout in the files, or of the Rollout in the cluster.
func (c *cli) simulationOptions(stdin io.Reader, o planOptions) ([]simulate.Options, error) {
	switch {
	case o.output != "" && o.output != "json" && o.output != "yaml":
		return nil, fmt.Errorf("--output %q: use json or yaml", o.output)
	case len(o.files) == 0 && o.live == "":
		return nil, errors.New("say what to plan: -f FILE with a Rollout and what it needs, or --live NAME")
	}
	scripts, err := (&component.Work{ScriptConfigMap: o.configMap}).ScriptConfigMapName()
	if err != nil {
		return nil, err
	}
	play := simulate.Options{ScriptDir: o.luaDir, ScriptConfigMap: scripts, Command: c.command, Now: time.Now()}
	namespace := c.namespace
	if o.live != "" {
		if play.Config, namespace, err = c.clusterConfig(); err != nil {
			return nil, err
		}
	} else if namespace == "" {
		namespace = "default"
	}
	if play.Objects, err = simulate.ReadManifests(o.files, stdin, namespace); err != nil {
		return nil, err
	}
	if o.live != "" {
		play.Rollout = types.NamespacedName{Namespace: namespace, Name: o.live}
		return []simulate.Options{play}, nil
	}
	return simulationsOf(play)
}

func simulationsOf(play simulate.Options) ([]simulate.Options, error) {
	var plays []simulate.Options
	seen := map[types.NamespacedName]bool{}
	for _, object := range play.Objects {
		name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		if !isRolloutObject(object) || seen[name] {
			continue
		}
		seen[name] = true
		play.Rollout = name
		plays = append(plays, play)
	}
	if len(plays) == 0 {
		return nil, errors.New("no file holds a Rollout; add it with -f, or plan one of the cluster with --live NAME")
	}
	return plays, nil
}

func isRolloutObject(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind()
	return kind.Group == api.Group && kind.Kind == api.KindRollout
}

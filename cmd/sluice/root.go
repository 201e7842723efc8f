package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/pkg/api"
)

// cli holds the common state of all commands.
type cli struct {
	kube      component.Kube
	namespace string
	noColor   bool
	color     string // auto, always or never
	// command is the name of this program for the user: sluice, or kubectl sluice.
	command     string
	out, errors io.Writer
}

// newRoot builds the command line of a program of the given name.
func newRoot(program string, out, errors io.Writer) *cobra.Command {
	c := &cli{command: programName(program), out: out, errors: errors}
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Release new versions step by step",
		Long: "Sluice releases new versions of workloads step by step: some pods, some traffic, then a pause until a person, a pipeline or metrics decide.\n\n" +
			"It carries out Rollouts of the API group rollouts.kruise.io.",
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: c.command},
	}
	root.SetOut(out)
	root.SetErr(errors)
	flags := root.PersistentFlags()
	c.kube.AddFlags(flags)
	flags.StringVarP(&c.namespace, "namespace", "n", "", "namespace to work in (default: the namespace of the kubeconfig's context)")
	flags.BoolVar(&c.noColor, "no-color", false, "write no colours, and ASCII only (also: environment variable NO_COLOR)")
	flags.StringVar(&c.color, "color", "auto", "when to write colours: auto (on a terminal), always or never")
	_ = root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colorModes(), cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(colorModes(), c.color) {
			return fmt.Errorf("--color %q: use auto, always or never", c.color)
		}
		return nil
	}
	addGroup(root, "Look:", c.listCommand(), c.getCommand(), c.statusCommand(), c.historyCommand(), c.analysisCommand(), c.eventsCommand())
	addGroup(root, "Turn a release:", c.approveCommand(), c.promoteCommand(), c.pauseCommand(), c.resumeCommand(), c.jumpCommand(), c.abortCommand(), c.retryCommand(), c.undoCommand())
	addGroup(root, "Many clusters:", c.fleetCommand())
	addGroup(root, "Try out:", c.planCommand(), c.luaCommand())
	addGroup(root, "Run and install:", c.checkCommand(), c.installCommand(), c.runCommand(), c.eventCommand(), c.dlqCommand(), c.versionCommand())
	return root
}

// addGroup adds commands under a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
		root.AddCommand(c)
	}
}

// asParent makes a command the parent of subcommands. Without arguments it shows its help. An unknown subcommand is an error that suggests others.
func asParent(parent *cobra.Command) *cobra.Command {
	parent.SuggestionsMinimumDistance = 2
	parent.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		problem := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
			return fmt.Errorf("%s; did you mean %s?", problem, strings.Join(names, " or "))
		}
		return fmt.Errorf("%s; to list its commands: %s --help", problem, cmd.CommandPath())
	}
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return parent
}

// programName returns the name of a program for the user. kubectl runs kubectl-sluice for `kubectl sluice`.
func programName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "sluice"
}

// clusterConfig returns the connection to the cluster, and the namespace of the command.
func (c *cli) clusterConfig() (*rest.Config, string, error) {
	config, err := c.kube.RESTConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, err := c.workingNamespace()
	if err != nil {
		return nil, "", err
	}
	return config, namespace, nil
}

func (c *cli) workingNamespace() (string, error) {
	if c.namespace != "" {
		return c.namespace, nil
	}
	namespace, _, err := c.kube.KubeconfigLoader().Namespace()
	if err != nil && !clientcmd.IsEmptyConfig(err) {
		return "", fmt.Errorf("read namespace from kubeconfig: %w", err)
	}
	return cmp.Or(namespace, "default"), nil
}

// access holds the clients of a command, and its namespace.
type access struct {
	config    *rest.Config
	read      *view.Reader
	write     dynamic.Interface
	namespace string
}

func (c *cli) newAccess() (a access, err error) {
	if a.config, a.namespace, err = c.clusterConfig(); err != nil {
		return a, err
	}
	if a.read, err = view.NewReader(a.config); err != nil {
		return a, err
	}
	if a.write, err = dynamic.NewForConfig(a.config); err != nil {
		return a, fmt.Errorf("make client: %w", err)
	}
	return a, nil
}

// namedRollout returns the Rollout that the arguments name, and the clients to read and write its objects.
func (c *cli) namedRollout(ctx context.Context, args []string) (a access, r *api.Rollout, err error) {
	name, err := rolloutName(args)
	if err != nil {
		return a, nil, err
	}
	if a, err = c.newAccess(); err != nil {
		return a, nil, err
	}
	if r, err = a.read.ReadRollout(ctx, a.namespace, name); err != nil {
		return a, nil, c.notFound(ctx, a.namespace, name, err)
	}
	return a, r, nil
}

// newReader returns a reader of views, and the namespace of the command.
func (c *cli) newReader() (*view.Reader, string, error) {
	config, namespace, err := c.clusterConfig()
	if err != nil {
		return nil, "", err
	}
	reader, err := view.NewReader(config)
	return reader, namespace, err
}

// viewStyle returns the view style for the standard output.
func (c *cli) viewStyle() view.Style {
	fancy := c.color == "always" || c.color == "auto" && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && c.isTerminal()
	fancy = fancy && !c.noColor
	return view.Style{Color: fancy, Unicode: fancy, Command: c.command, Namespaced: c.namespace != ""}
}

func colorModes() []string { return []string{"auto", "always", "never"} }

// isTerminal reports whether the standard output is a terminal.
func (c *cli) isTerminal() bool {
	file, ok := c.out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalHeight returns a function for the height of the terminal at the standard output; it returns nil if the output is no terminal.
func (c *cli) terminalHeight() func() int {
	if !c.isTerminal() {
		return nil
	}
	return func() int {
		_, height, err := term.GetSize(int(c.out.(*os.File).Fd()))
		if err != nil {
			return 0
		}
		return height
	}
}

// rolloutName parses "NAME", "rollout/NAME" and "rollout NAME".
func rolloutName(args []string) (string, error) {
	name := strings.Join(args, "/")
	if kind, rest, ok := strings.Cut(name, "/"); ok {
		if !isRollout(kind) {
			return "", fmt.Errorf("%q is no kind that this command knows; give the name of a Rollout, as NAME or rollout/NAME", kind)
		}
		name = rest
	}
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q names no Rollout; give one, as NAME or rollout/NAME", strings.Join(args, " "))
	}
	return name, nil
}

func isRollout(kind string) bool {
	switch strings.ToLower(kind) {
	case "rollout", "rollouts", "rollout.rollouts.kruise.io", "rollouts.rollouts.kruise.io":
		return true
	}
	return false
}

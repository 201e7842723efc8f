package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// These are the measurements, in order.
const (
	measureScript = "script"
	measureFloor  = "floor"
	measureAlone  = "alone"
	measureMany   = "many"
	measureNoisy  = "noisy"
	measureIdle   = "idle"
	measureFleet  = "fleet"
	// measureAnalysis is many analyses under way.
	measureAnalysis = "analysis"
)

func everything() []string {
	return []string{measureScript, measureFloor, measureAlone, measureMany, measureNoisy, measureIdle, measureFleet, measureAnalysis}
}

// These are the release styles, in the order of the measurements.
const (
	styleCanary    = "canary"
	stylePartition = "partition"
	styleBlueGreen = "blue-green"
)

func styles() []string { return []string{styleCanary, stylePartition, styleBlueGreen} }

// options are the flags.
type options struct {
	what       []string
	releases   []int
	executors  []int
	namespaces int
	steps      int
	replicas   int
	grace      int
	styles     []string
	repeat     int
	idle       int
	idleWindow time.Duration
	analyses   int
	workers    int

	analysesInterval, analysesWindow time.Duration

	external   bool
	kubeconfig string
	auditLog   string
	users      []string
	pids       map[string]int

	bin     string
	dir     string
	profile string
	output  string
	limit   time.Duration
	// command is the command line.
	command string
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{
		what:     []string{measureScript, measureFloor, measureAlone, measureMany, measureIdle, measureFleet},
		releases: []int{100}, executors: []int{1, 2}, styles: styles(),
		users: []string{"system:serviceaccount:sluice-system:"}, pids: map[string]int{},
		command: strings.Join(append([]string{"go run ./dev/bench"}, args...), " "),
	}
	var full bool
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&full, "full", false, "all sizes: 100 and 300 releases, 1, 2 and 4 executors, two tenants, 10000 idle Rollouts, 10000 analyses")
	f.Func("measure", "measurements, separated by commas: script, floor, alone, many, noisy, idle, fleet, analysis (default: all but noisy and analysis)", words(&o.what))
	f.Func("releases", "how many releases at once, separated by commas (default 100)", numbers(&o.releases))
	f.Func("executors", "how many executors, separated by commas; each number is measured (default 1,2)", numbers(&o.executors))
	f.IntVar(&o.namespaces, "namespaces", 10, "namespaces that the releases are spread over")
	f.IntVar(&o.steps, "steps", 3, "steps of each release; each waits for approval")
	f.IntVar(&o.replicas, "replicas", 2, "pods of each Deployment")
	f.IntVar(&o.grace, "grace", 3, "gracePeriodSeconds of the Rollouts; 3 is what a Rollout without the field gets")
	f.Func("style", "styles of the releases alone and at once, separated by commas: canary (a second Deployment), partition, blue-green (default: all); all else has the first", words(&o.styles))
	f.IntVar(&o.repeat, "repeat", 20, "how often the release alone, the native floor and the releases of a fleet are repeated")
	f.IntVar(&o.idle, "idle", 1000, "Rollouts at rest")
	f.DurationVar(&o.idleWindow, "idle-window", time.Minute, "how long the rest is watched")
	f.IntVar(&o.analyses, "analyses", 10000, "analyses under way")
	f.DurationVar(&o.analysesInterval, "analysis-interval", 30*time.Second, "time between two measurements of each")
	f.DurationVar(&o.analysesWindow, "analysis-window", time.Minute, "how long they are watched")
	f.IntVar(&o.workers, "workers", 16, "--workers of each executor")
	f.BoolVar(&o.external, "external", false, "start nothing: drive the controller that serves the cluster of --kubeconfig")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "with --external, the kubeconfig of an administrator")
	f.StringVar(&o.auditLog, "audit-log", "", "with --external, the API server's audit log, to count requests")
	f.Func("controller-user", "with --external, how the user names of the controller begin in the audit log, separated by commas", words(&o.users))
	f.Func("pid", "with --external, a process to measure, as name=pid; may be repeated", process(o.pids))
	f.StringVar(&o.bin, "bin", "", "directory with watcher, executor and analyzer (default: they are built)")
	f.StringVar(&o.dir, "dir", "", "directory for logs and data, which stays (default: a temporary one)")
	f.StringVar(&o.profile, "profile", "", "directory to write CPU profiles of watcher and executor to, taken while many releases run")
	f.StringVar(&o.output, "o", "table", "table or json")
	f.DurationVar(&o.limit, "limit", 0, "give up after this long (default 30m, with --full 2h)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.expand(full, given)
	return o, o.check(f.Args())
}

// expand sets values that depend on other flags. It keeps given values.
func (o *options) expand(full bool, given map[string]bool) {
	set := func(name string, do func()) {
		if !given[name] {
			do()
		}
	}
	set("limit", func() { o.limit = 30 * time.Minute })
	if full {
		set("releases", func() { o.releases = []int{100, 300} })
		set("executors", func() { o.executors = []int{1, 2, 4} })
		set("idle", func() { o.idle = 10000 })
		set("measure", func() { o.what = everything() })
		set("limit", func() { o.limit = 2 * time.Hour })
	}
	if o.external {
		o.executors = []int{0} // their number is unknown
		o.what = slices.DeleteFunc(slices.Clone(o.what), func(what string) bool {
			return slices.Contains([]string{measureScript, measureIdle, measureFleet, measureAnalysis}, what)
		})
	}
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag; run with -h to see them", rest[0])
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %q: use table or json", o.output)
	case o.external && o.kubeconfig == "":
		return errors.New("--external needs --kubeconfig, so that no cluster is driven by mistake")
	case !o.external && (o.kubeconfig != "" || o.auditLog != "" || len(o.pids) > 0):
		return errors.New("--kubeconfig, --audit-log and --pid go with --external")
	case o.steps < 1 || o.steps > 50 || o.replicas < 1 || o.namespaces < 1 || o.repeat < 1 || o.grace < 0 || o.idle < 1 || o.analyses < 1:
		return errors.New("--steps (1 to 50), --replicas, --namespaces, --repeat, --idle and --analyses must be at least 1, and --grace not negative")
	}
	for _, style := range o.styles {
		if !slices.Contains(styles(), style) {
			return fmt.Errorf("--style %q: use %s", style, strings.Join(styles(), ", "))
		}
	}
	for _, what := range o.what {
		if !slices.Contains(everything(), what) {
			return fmt.Errorf("--measure %q: use %s", what, strings.Join(everything(), ", "))
		}
	}
	return nil
}

func (o *options) measures(what string) bool { return slices.Contains(o.what, what) }

func words(to *[]string) func(string) error {
	return func(text string) error {
		*to = strings.Split(text, ",")
		return nil
	}
}

func numbers(to *[]int) func(string) error {
	return func(text string) error {
		*to = nil
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number above 0", word)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

func process(to map[string]int) func(string) error {
	return func(text string) error {
		name, number, _ := strings.Cut(text, "=")
		pid, err := strconv.Atoi(number)
		if name == "" || err != nil || pid < 1 {
			return fmt.Errorf("%q: use name=pid", text)
		}
		to[name] = pid
		return nil
	}
}

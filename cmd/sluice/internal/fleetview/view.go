// Package fleetview draws releases over many clusters as lines and tables of text: waves, clusters, the present wait, and the command to type next.
//
// It reads nothing and decides nothing. Its one invariant: its results depend on their arguments only. It knows no clock, no terminal and no client.
package fleetview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
)

// View holds the objects of one FleetRollout.
type View struct {
	Rollout *api.FleetRollout
	// Targets are its FleetTargets; nil if they could not be read.
	Targets []api.FleetTarget
	// Members are all FleetMembers; nil if they could not be read.
	Members []api.FleetMember
	// Strategy is the strategy of the next release; nil if it could not be read.
	Strategy *api.FleetStrategy
	// Unread lists the objects that could not be read, one sentence each.
	Unread []string
	Now    time.Time
}

// Style configures the text. The zero value is plain ASCII.
type Style struct {
	Color   bool
	Unicode bool
	// Command is the name of this program for the user, such as "kubectl sluice"; empty means "sluice".
	Command string
	// Namespaced adds -n to commands, for a user with another default namespace.
	Namespaced bool
	// Context is the context of the hub in the user's kubeconfig; "" for the current one.
	Context string
	// MaxClusters bounds the listed clusters of each wave; 0 means 10.
	MaxClusters int
}

// FleetCommand returns a command about a FleetRollout, as its user types it.
func (s Style) FleetCommand(verb string, r *api.FleetRollout, args ...string) string {
	words := append([]string{cmp.Or(s.Command, "sluice"), "fleet", verb, r.Name}, args...)
	if s.Namespaced {
		words = append(words, "-n", r.Namespace)
	}
	return s.withContext(strings.Join(words, " "))
}

// withContext adds the context of the hub to a command of this program or of kubectl.
func (s Style) withContext(command string) string {
	if s.Context == "" {
		return command
	}
	return command + " --context " + s.Context
}

// drawing is the state of one call.
type drawing struct {
	View
	Style
	ink      color.Ink
	marks    color.Marks
	clusters []fleet.ReleaseCluster
	lines    []string
}

func newDrawing(v View, s Style) *drawing {
	s.Command, s.MaxClusters = cmp.Or(s.Command, "sluice"), cmp.Or(s.MaxClusters, 10)
	return &drawing{View: v, Style: s, ink: color.Ink{On: s.Color}, marks: color.MarksFor(s.Unicode), clusters: ReadClusters(v)}
}

func (d *drawing) addLine(format string, args ...any) {
	d.lines = append(d.lines, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (d *drawing) addSection(title string) { d.lines = append(d.lines, "", d.ink.Bold(title)) }

func (d *drawing) addField(name, format string, args ...any) {
	for i, line := range strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
		if i > 0 {
			name = ""
		}
		d.addLine("%-13s %s", name, line)
	}
}

// age returns the time since t in kubectl's short form.
func age(now, t time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) }

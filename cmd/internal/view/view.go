// Package view draws one Rollout with all its objects as lines of text: steps, revisions, pods and routes, the current wait, and the next command. It also
// reads those objects from a cluster.
//
// It decides nothing and changes nothing. Its one invariant: Render is a function of its arguments; it knows no clock, no terminal and no client.
package view

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/cmd/internal/color"
	"sluice.dev/sluice/pkg/api"
)

// View holds all objects to draw.
type View struct {
	Rollout     *api.Rollout
	Deployments []appsv1.Deployment // the stable one, and the canary if it exists
	ReplicaSets []appsv1.ReplicaSet
	// Workload is the workload if it is not a Deployment, otherwise nil. It keeps its revisions in ControllerRevisions.
	Workload            *unstructured.Unstructured
	ControllerRevisions []appsv1.ControllerRevision
	Pods                []corev1.Pod
	Routes              []Route
	// Unread lists the objects that could not be read, one sentence each.
	Unread []string
	Now    time.Time
}

// Route is a gateway object of the Rollout. Object is nil when it does not exist.
type Route struct {
	Kind, Name string
	Object     *unstructured.Unstructured
}

// Style configures the drawing. The zero value is plain ASCII.
type Style struct {
	Color   bool
	Unicode bool
	// Command is the name of this program for the user, such as "kubectl sluice"; empty means "sluice".
	Command string
	// Namespaced adds -n to commands, for a user with another default namespace.
	Namespaced bool
	// MaxPods bounds the listed pods of each ReplicaSet; 0 means 10.
	MaxPods int
}

// Render draws the view. Lines have no line ends.
func Render(v View, s Style) []string {
	d := &drawing{View: v, Style: s, ink: color.Ink{On: s.Color}, marks: color.MarksFor(s.Unicode)}
	if d.MaxPods == 0 {
		d.MaxPods = 10
	}
	if d.Command == "" {
		d.Command = "sluice"
	}
	d.drawHead()
	d.drawFleet()
	d.drawSteps()
	d.drawAnalysis()
	d.drawRevisions()
	d.drawTraffic()
	d.drawApprovals()
	d.drawTransitions()
	for _, text := range v.Unread {
		d.addLine("%s", d.ink.Yellow("! "+text))
	}
	return d.lines
}

// drawing is the state of one Render.
type drawing struct {
	View
	Style
	ink   color.Ink
	marks color.Marks
	lines []string
}

func (d *drawing) addLine(format string, args ...any) {
	d.lines = append(d.lines, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (d *drawing) addSection(title string) {
	d.lines = append(d.lines, "", d.ink.Bold(title))
}

// commonStatus returns the common status of canary and blue-green releases; the zero value before the first release.
func commonStatus(r *api.Rollout) api.CommonStatus {
	if common := r.Status.Common(); common != nil {
		return *common
	}
	return api.CommonStatus{}
}

// ageText returns the age of t, in kubectl's short form.
func (d *drawing) ageText(t time.Time) string { return shortDuration(d.Now.Sub(t)) }

func shortDuration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Command gen writes the admission policies of all kinds of workloads but Deployments, which differ in what holds them and in nothing
// else, from one template each for hold and guard. Its argument is the directory
// to write to, which has the policy for Deployments.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed hold.yaml.tmpl
var holdTemplate string

//go:embed guard.yaml.tmpl
var guardTemplate string

// family is a group of kinds that are held in the same way.
type family struct {
	Name  string
	Rules []string
	// What is said of the family in a comment, each a line.
	About []string
	// Release is the expression that says what is a release, taken from the policy for Deployments.
	Release string
	// Which is the expression that tells its kinds, where the rules say more than them.
	Which string
	// Typed: a workload that rolls by itself has the update type RollingUpdate, and only such a one is held.
	Typed  bool
	Fields []field
}

// field is one that holds a workload, or that a guard keeps.
type field struct {
	// Name of the annotation of its original, and the path under spec.
	Name string
	Path []string
	// Held is what a hold sets it to, as CEL has it; empty where a hold leaves it.
	Held, HeldText string
	// Absent is the text of it when it is not set.
	Absent string
	// Value is what an original is read as.
	Value value
	// Pattern is what an original reads like.
	Pattern string
	// Wide: it is kept only while its original is remembered, as that of a widened workload is.
	Wide bool
}

// value is the type of a field.
type value int

const (
	text value = iota
	numberOrPercent
	truth
)

// Read is the value that the annotation of a request says, as CEL has it. No partition is one of 0: the webhook that would add it has
// been asked already.
func (f field) Read() string {
	said := "variables.annotations['" + f.Key() + "']"
	switch f.Value {
	case numberOrPercent:
		return said + " == '' ? dyn(0) : " + said + ".endsWith('%') ? dyn(" + said + ") : dyn(int(" + said + "))"
	case truth:
		return said + " == 'true'"
	}
	return said
}

// Ours is the expression that says whether the field is ours.
func (f field) Ours() string {
	if f.Wide {
		return "variables.wasWidened"
	}
	return "variables.wasInProgress"
}

func (f field) Last() string { return f.Path[len(f.Path)-1] }

func (f field) Key() string { return "sluice.dev/original." + f.Name }

// Of is the optional value of the field in object or oldObject.
func (f field) Of(object string) string { return object + ".?spec.?" + strings.Join(f.Path, ".?") }

func (f field) Pointer() string { return "/spec/" + strings.Join(f.Path, "/") }

// Parents are the paths of the objects that the field lies in, the outer first.
func (f field) Parents() (list []parent) {
	for n := 1; n < len(f.Path); n++ {
		list = append(list, parent{"spec.?" + strings.Join(f.Path[:n], ".?"), "/spec/" + strings.Join(f.Path[:n], "/")})
	}
	return list
}

type parent struct{ Chain, Pointer string }

// Deepest is the field that lies deepest; its parents are those of all.
func (f family) Deepest() field {
	deepest := f.Fields[0]
	for _, candidate := range f.Fields {
		if len(candidate.Path) > len(deepest.Path) {
			deepest = candidate
		}
	}
	return deepest
}

// Narrow are the fields that are kept whether or not the workload is widened.
func (f family) Narrow() (list []field) {
	for _, candidate := range f.Fields {
		if !candidate.Wide {
			list = append(list, candidate)
		}
	}
	return list
}

// Widens reports whether the executor widens a workload of the family.
func (f family) Widens() bool { return len(f.Narrow()) < len(f.Fields) }

// OrWide goes on with an expression that is true for what a spec has beside the fields, by the name k.
func (f family) OrWide() string {
	var names []string
	for _, candidate := range f.Fields {
		if candidate.Wide {
			names = append(names, "'"+candidate.Path[0]+"'")
		}
	}
	if names == nil {
		return ""
	}
	return " && !(variables.wasWidened && k in [" + strings.Join(names, ", ") + "])"
}

func families() []family {
	partition := field{
		Name: "partition", Path: []string{"updateStrategy", "rollingUpdate", "partition"}, Held: "32767", HeldText: "32767", Pattern: "^([0-9]{1,9}%?)?$", Value: numberOrPercent,
	}
	updateType := field{
		Name: "type", Path: []string{"updateStrategy", "type"}, Absent: "RollingUpdate", Pattern: "^(RollingUpdate|OnDelete)$",
	}
	onDelete := updateType
	onDelete.Held, onDelete.HeldText = "'OnDelete'", "OnDelete"
	return []family{
		{
			Name: "statefulset", Typed: true, Fields: []field{partition, updateType},
			About: []string{
				"StatefulSets, and what is held like them: a partition above all ordinals. One of update type OnDelete",
				"does not roll by itself and is left alone. Of other groups it is what its owner labels as a StatefulSet.",
			},
			Rules: []string{"{apiGroups: ['*'], apiVersions: ['*'], operations: [UPDATE], resources: ['*'], scope: Namespaced}"},
			Which: "request.kind.group == 'apps' ? request.kind.kind == 'StatefulSet'\n" +
				"        : request.kind.group == 'apps.kruise.io' ? request.kind.kind in ['StatefulSet', 'DaemonSet']\n" +
				"        : 'statefulset' in [object, oldObject].map(o, o.metadata.?labels[?'rollouts.kruise.io/workload-type'].orValue(''))\n" +
				"          && object.?spec.?template.?spec.hasValue()",
		},
		{
			Name: "daemonset", Fields: []field{onDelete},
			About: []string{"DaemonSets of Kubernetes: OnDelete lets no pod be replaced that nobody deletes."},
			Rules: []string{"{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [daemonsets], scope: Namespaced}"},
		},
		{
			Name: "cloneset", Fields: []field{
				{Name: "partition", Path: []string{"updateStrategy", "partition"}, Held: "'100%'", HeldText: "100%", Pattern: "^([0-9]{1,9}%?)?$", Value: numberOrPercent},
				{Name: "paused", Path: []string{"updateStrategy", "paused"}, Held: "false", HeldText: "false", Absent: "false", Pattern: "^(true|false)$", Value: truth},
				{Name: "replicas", Path: []string{"replicas"}, Pattern: "^[0-9]{1,9}$", Wide: true},
				{Name: "minReadySeconds", Path: []string{"minReadySeconds"}, Absent: "0", Pattern: "^[0-9]{1,9}$", Wide: true},
				{Name: "scaleMaxUnavailable", Path: []string{"scaleStrategy", "maxUnavailable"}, Pattern: "^([0-9]{1,9}%?)?$", Wide: true},
			},
			About: []string{
				"CloneSets of OpenKruise: a partition of all pods. One that is widened for a blue-green release also has replicas of ours.",
				"A kind that is not installed is named to no harm.",
			},
			Rules: []string{"{apiGroups: [apps.kruise.io], apiVersions: [v1alpha1, v1beta1], operations: [UPDATE], resources: [clonesets], scope: Namespaced}"},
		},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// write puts every policy into a file of a directory.
func write(dir string) error {
	deployments, err := os.ReadFile(filepath.Join(dir, "hold-deployment.yaml"))
	if err != nil {
		return fmt.Errorf("read the policy for Deployments: %w", err)
	}
	_, release, _ := strings.Cut(string(deployments), "    - name: is-a-release\n      expression: >-\n")
	release, _, found := strings.Cut(release, "\n\n")
	if !found {
		return errors.New("the policy for Deployments does not say what is a release")
	}
	for _, f := range families() {
		f.Release = release + "\n"
		for prefix, text := range map[string]string{"hold": holdTemplate, "guard": guardTemplate} {
			parsed, err := template.New(prefix).Parse(text)
			if err != nil {
				return fmt.Errorf("parse template: %w", err)
			}
			var out bytes.Buffer
			if err := parsed.Execute(&out, f); err != nil {
				return fmt.Errorf("write policy of %s: %w", f.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, prefix+"-"+f.Name+".yaml"), out.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

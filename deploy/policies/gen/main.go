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
	"slices"
	"strings"
	"text/template"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

//go:embed hold.yaml.tmpl
var holdTemplate string

//go:embed guard.yaml.tmpl
var guardTemplate string

// family is a group of kinds that are held in the same way.
type family struct {
	Name  string
	Rules []string
	// About is the comment about the family, by lines.
	About []string
	// Release is the expression that is true for a release, taken from the policy for Deployments.
	Release string
	// Which is the expression that tells its kinds, where the rules say more than them.
	Which string
	// Typed: a workload that rolls by itself has the update type RollingUpdate, and only such a one is held.
	Typed  bool
	Fields []field
}

// field is one that holds a workload, or that a guard keeps.
type field struct {
	kinds.Field
	// Held is what a hold sets it to, as CEL has it, and HeldText its text; both are empty where a hold leaves it.
	Held, HeldText string
}

func fieldOf(f kinds.Field) field {
	switch v := f.Held.(type) {
	case nil:
		return field{Field: f}
	case string:
		return field{f, "'" + v + "'", v}
	default:
		return field{f, fmt.Sprint(v), fmt.Sprint(v)}
	}
}

// Read is the value that the annotation of a request says, as CEL has it. No partition is one of 0: the webhook that would add it has
// been asked already.
func (f field) Read() string {
	said := "variables.annotations['" + f.Key() + "']"
	switch f.Form {
	case kinds.Amount, kinds.Number:
		return said + " == '' ? dyn(0) : " + said + ".endsWith('%') ? dyn(" + said + ") : dyn(int(" + said + "))"
	case kinds.Boolean:
		return said + " == 'true'"
	}
	return said
}

// Ours is the expression that says whether the field is ours.
func (f field) Ours() string {
	if f.SurgeOnly {
		return "variables.wasWidened"
	}
	return "variables.wasInProgress"
}

func (f field) Key() string { return f.AnnotationKey() }

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

// Deepest is the field with the longest path; its parents are the parents of all fields.
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
		if !candidate.SurgeOnly {
			list = append(list, candidate)
		}
	}
	return list
}

// Widens reports whether the executor surges a workload of the family.
func (f family) Widens() bool { return len(f.Narrow()) < len(f.Fields) }

// OrWide continues an expression: it is true for parts of a spec other than the fields, by the name k.
func (f family) OrWide() string {
	var names []string
	for _, candidate := range f.Fields {
		if candidate.SurgeOnly {
			names = append(names, "'"+candidate.Path[0]+"'")
		}
	}
	if names == nil {
		return ""
	}
	return " && !(variables.wasWidened && k in [" + strings.Join(names, ", ") + "])"
}

// families are the families of the table of kinds; the policies for Deployments are written by hand.
func families() (list []family) {
	for _, name := range kinds.Families() {
		rows := kinds.OfFamily(name)
		if len(rows) == 0 {
			continue
		}
		f := family{Name: name, About: about[name], Typed: rows[0].LeavesOnDelete()}
		for _, held := range rows[0].Fields {
			f.Fields = append(f.Fields, fieldOf(held))
		}
		f.Rules, f.Which = rulesOf(rows)
		list = append(list, f)
	}
	return list
}

// about has the comment of each family.
var about = map[string][]string{
	"statefulset": {
		"StatefulSets and similar kinds: a partition above all ordinals holds them. The policy ignores a workload of update type",
		"OnDelete, which does not roll out by itself. In other groups, the policy matches kinds that their owner labels as a StatefulSet.",
	},
	"daemonset": {"DaemonSets of Kubernetes: OnDelete holds them, because their controller then replaces only pods that a user deletes."},
	"cloneset": {
		"CloneSets of OpenKruise: a partition of all pods holds them. During a blue-green release, Sluice also sets their replicas.",
		"The rule does no harm in a cluster without CloneSets.",
	},
}

// rulesOf are the rules that match the kinds of a family. A family that has kinds of any group by their label matches everything, and which
// tells its kinds.
func rulesOf(rows []kinds.Kind) (rules []string, which string) {
	shape := slices.IndexFunc(rows, func(k kinds.Kind) bool { return k.ByLabel })
	if shape >= 0 {
		return []string{"{apiGroups: ['*'], apiVersions: ['*'], operations: [UPDATE], resources: ['*'], scope: Namespaced}"}, whichOf(rows, rows[shape])
	}
	for _, k := range rows {
		rules = append(rules, fmt.Sprintf("{apiGroups: [%s], apiVersions: [%s], operations: [UPDATE], resources: [%s], scope: Namespaced}",
			k.GroupKind.Group, strings.Join(k.Versions, ", "), k.Resource))
	}
	return rules, ""
}

// whichOf is the expression that tells the kinds of a family: of groups of the table by their names, of all others by the label.
func whichOf(rows []kinds.Kind, shape kinds.Kind) string {
	var groups []string
	names := map[string][]string{}
	for _, k := range kinds.All() {
		if !slices.Contains(groups, k.GroupKind.Group) {
			groups = append(groups, k.GroupKind.Group)
		}
	}
	for _, k := range rows {
		names[k.GroupKind.Group] = append(names[k.GroupKind.Group], "'"+k.GroupKind.Kind+"'")
	}
	var text strings.Builder
	for _, group := range groups {
		fmt.Fprintf(&text, "request.kind.group == '%s' ? ", group)
		if of := names[group]; len(of) == 1 {
			text.WriteString("request.kind.kind == " + of[0])
		} else {
			text.WriteString("request.kind.kind in [" + strings.Join(of, ", ") + "]")
		}
		text.WriteString("\n        : ")
	}
	fmt.Fprintf(&text, "'%s' in [object, oldObject].map(o, o.metadata.?labels[?'%s'].orValue(''))\n", shape.Type, api.LabelWorkloadType)
	text.WriteString("          && object.?spec.?template.?spec.hasValue()")
	return text.String()
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
		return errors.New("the policy for Deployments does not define a release")
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

package analysistry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/analysis"
	"sluice.dev/sluice/pkg/api"
)

// Argument is a value that a template used.
type Argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is given, template for a default of the template, or assumed for a standard argument.
	From string `json:"from"`
}

// These are the sources of values.
const (
	FromUser     = "given"
	FromTemplate = "template"
	Assumed      = "assumed"
)

// standardArgs derives the arguments that a Rollout would provide from the given ones.
func standardArgs(given map[string]string, namespace string) map[string]string {
	or := func(name, other string) string {
		if v, ok := given[name]; ok {
			return v
		}
		return other
	}
	args := map[string]string{api.ArgNamespace: or(api.ArgNamespace, namespace), api.ArgStep: or(api.ArgStep, "1"), api.ArgWeight: or(api.ArgWeight, "0")}
	args[api.ArgWorkload] = or(api.ArgWorkload, or(api.ArgRollout, or(api.ArgStableService, "app")))
	args[api.ArgRollout] = or(api.ArgRollout, args[api.ArgWorkload])
	args[api.ArgStableService] = or(api.ArgStableService, args[api.ArgWorkload])
	args[api.ArgCanaryService] = or(api.ArgCanaryService, args[api.ArgStableService]+api.SuffixCanary)
	for _, name := range []string{api.ArgStableRevision, api.ArgCanaryRevision, api.ArgStableHash, api.ArgCanaryHash} {
		args[name] = or(name, "unknown")
	}
	return args
}

// resolveArguments returns the values for the metrics, the used arguments for the report, and remarks about the given ones.
func (t Template) resolveArguments(o Options) (args map[string]string, used []Argument, odd []string, err error) {
	standard, declared := standardArgs(o.Args, o.Namespace), map[string]bool{}
	var missing []string
	for _, a := range t.Spec.Args {
		declared[a.Name] = true
		if _, is := o.Args[a.Name]; !is && a.Value == nil {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		return nil, nil, nil, fmt.Errorf("%s needs a value for %s: add --arg %s=VALUE", t.Name, strings.Join(missing, ", "), strings.Join(missing, "=VALUE --arg "))
	}
	if args, err = analysis.ResolveArguments(t.Spec.Args, o.Args, standard); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	text, err := json.Marshal(t.Spec.Metrics)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !strings.Contains(string(text), "args."+name) {
			continue
		}
		a := Argument{Name: name, Value: args[name], From: Assumed}
		if _, is := o.Args[name]; is {
			a.From = FromUser
		} else if declared[name] {
			a.From = FromTemplate
		}
		used = append(used, a)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		if _, is := args[name]; !is {
			odd = append(odd, fmt.Sprintf("%s does not know the argument %s, so its value is not used; it declares %s.", t.Name, name, declaredNames(declared)))
		}
	}
	return args, used, odd, nil
}

func declaredNames(declared map[string]bool) string {
	if len(declared) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(declared)), ", ")
}

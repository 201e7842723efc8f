package analysis

import (
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// FillArguments replaces each {{args.name}} by the value of the argument. It does not quote or escape the value, because a value may be a part of a
// query. The error is a [*FieldError] about the field.
func FillArguments(field, text string, args map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		name, is := strings.CutPrefix(strings.TrimSpace(inside), "args.")
		if !closed || !is {
			return "", newFieldError(field, "{{%s is no argument; write {{args.name}}", strings.TrimSpace(inside))
		}
		value, given := args[name]
		if !given {
			return "", newFieldError(field, "the argument %q is not given; add it under args in the Rollout, or give it a value in the template (given are: %s)",
				name, strings.Join(slices.Sorted(maps.Keys(args)), ", "))
		}
		out.WriteString(value)
		text = after
	}
}

// ResolveArguments returns the arguments of a template's metrics. They are the standard arguments, which need no declaration, and the declared ones,
// each with its given value or else its default. A declaration overrides a standard argument of the same name. Given values without a declaration
// belong to other templates. The error is a [*FieldError].
func ResolveArguments(declared []api.TemplateArg, given, standard map[string]string) (map[string]string, error) {
	args := map[string]string{}
	maps.Copy(args, standard)
	for _, a := range declared {
		value, is := given[a.Name]
		switch {
		case is:
			args[a.Name] = value
		case a.Value != nil:
			args[a.Name] = *a.Value
		default:
			return nil, newFieldError("args["+a.Name+"]", "the argument has no value; give it one under analysis.args in the Rollout, or in the template")
		}
	}
	return args, nil
}

package analysis

import (
	"maps"
	"slices"
	"strings"
)

// fill puts the values of arguments in the place of {{args.name}}. Values go in as they are: a value may be a part of a query.
func fill(field, text string, args map[string]string) (string, error) {
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
			return "", invalid(field, "{{%s is no argument; write {{args.name}}", strings.TrimSpace(inside))
		}
		value, given := args[name]
		if !given {
			return "", invalid(field, "the argument %q is not given; add it under args in the Rollout, or give it a value in the template (given are: %s)",
				name, strings.Join(slices.Sorted(maps.Keys(args)), ", "))
		}
		out.WriteString(value)
		text = after
	}
}

// Argument is an argument that a template declares.
type Argument struct {
	Name string `json:"name"`
	// Default is the value for whoever gives none; without it, the argument has to be given.
	Default *string `json:"value,omitempty"`
}

// Arguments are the values that a template's metrics see: the standard ones, which need no declaration, and those that it declares, each
// with the value given or else its default. A declaration wins over a standard argument of the same name. Values given for what is
// not declared are for other templates. The error is a [*FieldError].
func Arguments(declared []Argument, given, standard map[string]string) (map[string]string, error) {
	args := map[string]string{}
	maps.Copy(args, standard)
	for _, a := range declared {
		value, is := given[a.Name]
		switch {
		case is:
			args[a.Name] = value
		case a.Default != nil:
			args[a.Name] = *a.Default
		default:
			return nil, invalid("args", "the argument %q has no value; give it one under analysis.args in the Rollout, or in the template", a.Name)
		}
	}
	return args, nil
}

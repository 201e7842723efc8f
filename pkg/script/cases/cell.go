package cases

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"sluice.dev/sluice/pkg/script"
)

// Weights are the shares with which each kind that supports shares is tested.
var Weights = []int{0, 1, 20, 33, 50, 99, 100}

// FeatureNames are the names of all features that a kind may support, in the order
// of the tables.
func FeatureNames() []string {
	var all []string
	for _, w := range Weights {
		all = append(all, featureOfWeight(w))
	}
	return append(all, fineWeight,
		"header Exact", "header RegularExpression", "header Prefix", "query Exact", "query RegularExpression", "path Exact", "path PathPrefix", "path RegularExpression", "cookie",
		"A and B", "A or B", "matches and weight", "headers set", "headers added", "headers removed", "mirror", "tcp", "one Service", "named rules", "tag",
		"others keep their share", "empty and unknown kept", "refused")
}

// PropertyNames are properties of each kind that routes, for any steps.
func PropertyNames() []string {
	return []string{"twice is once", "step back", "abort", "edit kept", "two releases", "given back"}
}

// byName are the features that a case shows by the content of its original, and so
// by the name of its file.
var byName = map[string]string{
	"other_backends_keep_their_share":      "others keep their share",
	"empty_values_and_unknown_fields_kept": "empty and unknown kept",
}

// fineWeight is a share that is not a whole percent.
const fineWeight = "weight 0.5"

// RequestableFeatures are the features of [RequiredFeatures] that steps show by
// their fields.
func RequestableFeatures(c *script.Capabilities) []string {
	named := slices.Collect(maps.Values(byName))
	return slices.DeleteFunc(RequiredFeatures(c), func(cell string) bool { return slices.Contains(named, cell) })
}

func featureOfWeight(w int) string { return fmt.Sprintf("weight %d", w) }

// RequiredFeatures are the features that a kind must show, by its capabilities. A
// kind that only defines targets of other routes needs none.
func RequiredFeatures(c *script.Capabilities) []string {
	if c == nil || c.Referenced {
		return nil
	}
	can := map[string]bool{
		"A and B": c.And, "A or B": c.Or, "matches and weight": c.MatchesAndWeight, "one Service": c.SharedService, "refused": true,
		"tcp": c.TCP, "mirror": c.Mirror, "named rules": c.Routes,
		"tag": c.Weights && c.MatchesAndWeight && slices.Contains(c.Headers, "Exact") && slices.Contains(c.HeaderModifier, "set") && !c.HeadersOfMatches,
		// Scripts get both as patterns of headers.
		"cookie": slices.Contains(c.Headers, "RegularExpression"), "header Prefix": slices.Contains(c.Headers, "RegularExpression"), "others keep their share": c.Weights, "empty and unknown kept": true,
		"headers set": slices.Contains(c.HeaderModifier, "set"), "headers added": slices.Contains(c.HeaderModifier, "add"),
		"headers removed": slices.Contains(c.HeaderModifier, "remove"),
	}
	for _, w := range Weights {
		can[featureOfWeight(w)] = c.Weights && c.InRange(float64(w))
	}
	can[fineWeight] = c.Weights && c.WeightStep != 0 && c.InRange(0.5)
	for what, how := range map[string][]string{"header ": c.Headers, "query ": c.QueryParams, "path ": c.Paths} {
		for _, h := range how {
			can[what+h] = true
		}
	}
	return slices.DeleteFunc(FeatureNames(), func(cell string) bool { return !can[cell] })
}

// ShownFeatures are the features that the cases of one script show.
func ShownFeatures(of []Case) []string {
	shown := map[string]bool{}
	for _, c := range of {
		if c.Refused != "" {
			shown["refused"] = true
			continue
		}
		shown[byName[c.Name()]] = true
		shown["tcp"] = shown["tcp"] || c.sharesConnections()
		for _, in := range c.Steps {
			for _, cell := range featuresOf(in) {
				shown[cell] = true
			}
		}
	}
	return slices.DeleteFunc(FeatureNames(), func(cell string) bool { return !shown[cell] })
}

// sharesConnections reports whether the original shares connections that are not
// HTTP requests.
func (c Case) sharesConnections() bool {
	kind := toString(c.Original["kind"])
	spec := toMap(c.Original["spec"])
	return kind == "TCPRoute" || kind == "TLSRoute" || spec["tcp"] != nil || spec["tls"] != nil && kind == "VirtualService"
}

// featuresOf returns the features that one step shows.
func featuresOf(in script.Input) []string {
	var cells []string
	add := func(when bool, cell string) {
		if when {
			cells = append(cells, cell)
		}
	}
	add(in.CanaryWeight >= 0 && len(in.Matches) == 0 && in.Fine == 0, featureOfWeight(in.CanaryWeight))
	add(in.Fine == 0.5 && len(in.Matches) == 0, fineWeight)
	add(in.CanaryWeight >= 0 && len(in.Matches) > 0, "matches and weight")
	add(in.StableService == in.CanaryService, "one Service")
	add(len(in.Matches) > 1, "A or B")
	add(in.Mirror != 0, "mirror")
	add(in.Routes != nil, "named rules")
	add(in.Tag != nil, "tag")
	asked := in.Matches
	if in.Rules != nil {
		asked = in.Rules
	}
	for _, match := range asked {
		conditions := 0
		for _, part := range []struct{ field, what, how string }{{"path", "path", "PathPrefix"}, {"headers", "header", "Exact"}, {"queryParams", "query", "Exact"}} {
			some, _ := fieldAt(match, part.field).([]any)
			if one := fieldAt(match, part.field); one != nil && some == nil {
				some = []any{one}
			}
			conditions += len(some)
			for _, condition := range some {
				how := part.how
				if said := toString(fieldAt(condition, "type")); said != "" {
					how = said
				}
				cells = append(cells, part.what+" "+how)
			}
		}
		if fieldAt(match, "cookie") != nil {
			conditions++
			add(true, "cookie")
		}
		add(conditions > 1, "A and B")
	}
	for verb, cell := range map[string]string{"set": "headers set", "add": "headers added", "remove": "headers removed"} {
		changes, _ := fieldAt(in.RequestHeaderModifier, verb).([]any)
		add(len(changes) > 0, cell)
	}
	return cells
}

// Kind is a built-in script with its capabilities and the features that its cases
// show.
type Kind struct {
	Group, Kind  string
	Class        string // the class of an Ingress
	Capabilities *script.Capabilities
	Shown        []string
}

// ListKinds lists the scripts of a tree laid out like lua_configuration.
func ListKinds(tree fs.FS) ([]Kind, error) {
	all, err := LoadAll(tree)
	if err != nil {
		return nil, err
	}
	of := map[string][]Case{}
	for _, c := range all {
		of[path.Dir(c.Script)] = append(of[path.Dir(c.Script)], c)
	}
	library := script.NewLibrary(tree, "")
	var kinds []Kind
	classes, err := LoadIngressCases(tree)
	if err != nil {
		return nil, err
	}
	ofClass := map[string][]Case{}
	for _, c := range classes {
		ofClass[c.Class] = append(ofClass[c.Class], c)
	}
	for _, class := range slices.Sorted(maps.Keys(ofClass)) {
		source, err := library.FindIngress(class, script.ConfigMap{})
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, Kind{Group: script.IngressKind().Group, Kind: "Ingress " + class, Class: class, Capabilities: source.Capabilities, Shown: ShownFeatures(ofClass[class])})
	}
	for _, k := range library.ListKinds(script.ConfigMap{}) {
		source, err := library.FindScript(k.Group, k.Kind, script.ConfigMap{})
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, Kind{Group: k.Group, Kind: k.Kind, Capabilities: source.Capabilities, Shown: ShownFeatures(of[path.Join(k.Group, k.Kind)])})
	}
	return kinds, nil
}

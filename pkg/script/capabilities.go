package script

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Capabilities say what a kind of gateway object can express, and so what a
// step may ask of its script. They stand beside the script, in
// capabilities.yaml. What a field does not name cannot be asked.
type Capabilities struct {
	// Referenced: objects of the kind define what others route to, whatever a step
	// asks. All other fields are about kinds that route.
	Referenced bool `json:"referenced,omitempty"`
	// Weights: the canary may get a share of the traffic. WeightStep is the
	// least difference between two shares, in percent; absent it is 1.
	Weights    bool    `json:"weights,omitempty"`
	WeightStep float64 `json:"weightStep,omitempty"`
	// WeightMin and WeightMax are the least and the greatest share that a step may
	// ask for, in percent; absent there is no such limit. WeightSum is what the
	// weights of a rule's backends must add up to; absent they may be any.
	WeightMin float64 `json:"weightMin,omitempty"`
	WeightMax float64 `json:"weightMax,omitempty"`
	WeightSum float64 `json:"weightSum,omitempty"`
	// Sticky tells what a step with a share does to users with a sticky session, whom
	// the gateway keeps with one pod. kept: the gateway keeps them with one version.
	// broken: it sends them to both. refused: the script refuses the step. Absent:
	// unknown.
	Sticky string `json:"sticky,omitempty"`
	// SeveralReleases: more than one release may be on an object at a time; absent
	// it is true.
	SeveralReleases *bool `json:"severalReleases,omitempty"`
	// Paths, Headers and QueryParams are how each may be compared: Exact,
	// RegularExpression, and for paths PathPrefix.
	Paths       []string `json:"paths,omitempty"`
	Headers     []string `json:"headers,omitempty"`
	QueryParams []string `json:"queryParams,omitempty"`
	// And: a match may have several conditions. Or: a step may have several
	// matches. MatchesAndWeight: it may have both.
	And              bool `json:"and,omitempty"`
	Or               bool `json:"or,omitempty"`
	MatchesAndWeight bool `json:"matchesAndWeight,omitempty"`
	// HeaderModifier are the changes of request headers: set, add, remove.
	// HeadersOfMatches: only those of requests that match can be changed, and not
	// those of a share.
	HeaderModifier   []string `json:"headerModifier,omitempty"`
	HeadersOfMatches bool     `json:"headersOfMatches,omitempty"`
	// TCP: what is shared may be connections that are no requests.
	TCP bool `json:"tcp,omitempty"`
	// Routes: rules have names, so that a release may keep to some of them.
	Routes bool `json:"routes,omitempty"`
	// Tells are the fields of obj that a script gets by naming them here: ports
	// of the stable Service and targets with the revisions of their pods, by
	// whose changes the object is written anew, and services.
	Tells []string `json:"tells,omitempty"`
	// Mirror: requests may be copied to the canary. MirrorStep is the least
	// difference between two shares of them, in percent; absent there is none.
	Mirror     bool    `json:"mirror,omitempty"`
	MirrorStep float64 `json:"mirrorStep,omitempty"`
	// Needs are the features that a GatewayClass must support for a part of
	// what a step asks for: mirror, mirrorShare (of less than all requests),
	// queryParams, headerModifier in a step with a share of the traffic
	// (backendHeaderModifier).
	Needs map[string]string `json:"needs,omitempty"`
	// Controllers are the Ingress controllers that do what the script writes, by
	// their names in docs/gateways.md. An object whose class is another's is refused.
	Controllers []string `json:"controllers,omitempty"`
	// OneCanary: of several canary Ingresses for a host and path the controller
	// takes one.
	OneCanary bool `json:"oneCanary,omitempty"`
	// SharedService: both versions may stand behind one Service.
	SharedService bool `json:"sharedService,omitempty"`
	// Backends are kinds other than Service that a rule may lead to, by the name
	// of the Service. That of the canary is its owner's to make.
	Backends []GroupVersionKind `json:"backends,omitempty"`
	// Reads are kinds of objects that the gateway object names in a field of its
	// spec. The script gets these objects in obj.reads, and those that they name. The
	// executor runs the script again when one of them changes.
	Reads []Reads `json:"reads,omitempty"`
	// Creates are the kinds of objects that the script may make beside the one
	// that it shapes, in the namespace of that one.
	Creates []GroupVersionKind `json:"creates,omitempty"`
	// Orders: what is created needs a number that no other object has.
	Orders *Orders `json:"orders,omitempty"`
	// LagSeconds is how long a gateway may still route as it did before the
	// object was written, where that is longer than the default of
	// gracePeriodSeconds.
	LagSeconds int `json:"lagSeconds,omitempty"`
	// Instead says what to do about a step that the kind cannot express.
	Instead string `json:"instead,omitempty"`
}

// What a script may want to be told.
const (
	TellPorts    = "ports"
	tellServices = "services"
	TellTargets  = "targets"
)

// Values of [Capabilities].Sticky.
const (
	StickyKept    = "kept"
	StickyBroken  = "broken"
	StickyRefused = "refused"
)

// GroupVersionKind is a kind as a manifest names it.
type GroupVersionKind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Orders are numbers by which a load balancer sorts the rules of all objects of
// its class. No two of them may have the same; those of a canary come before
// that of the object it was made beside.
type Orders struct {
	// Annotation holds the number.
	Annotation string `json:"annotation"`
	// Default is the number of an object without the annotation, Min the least
	// that there may be.
	Default int `json:"default"`
	Min     int `json:"min"`
}

// ParseCapabilities reads a capabilities.yaml. An unknown field or way of
// comparing is an error: a misspelt one would refuse what the kind can do.
func ParseCapabilities(text []byte) (*Capabilities, error) {
	c := &Capabilities{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("parse capabilities: %w", err)
	}
	for _, list := range []struct {
		name    string
		has     []string
		allowed []string
	}{
		{"paths", c.Paths, []string{"Exact", "PathPrefix", "RegularExpression"}},
		{"headers", c.Headers, []string{"Exact", "RegularExpression"}},
		{"queryParams", c.QueryParams, []string{"Exact", "RegularExpression"}},
		{"headerModifier", c.HeaderModifier, []string{"set", "add", "remove"}},
		{"tells", c.Tells, []string{TellPorts, tellServices, TellTargets}},
		{"controllers", c.Controllers, namesOfControllers()},
	} {
		for _, v := range list.has {
			if !slices.Contains(list.allowed, v) {
				return nil, fmt.Errorf("parse capabilities: %s has %q; it may have %s", list.name, v, strings.Join(list.allowed, ", "))
			}
		}
	}
	if all := []string{"", StickyKept, StickyBroken, StickyRefused}; !slices.Contains(all, c.Sticky) {
		return nil, fmt.Errorf("parse capabilities: sticky is %q; it may be %s", c.Sticky, strings.Join(all[1:], ", "))
	}
	for i, of := range c.Reads {
		if err := of.valid(); err != nil {
			return nil, fmt.Errorf("parse capabilities: reads[%d]: %w", i, err)
		}
	}
	if err := c.weightsValid(); err != nil {
		return nil, fmt.Errorf("parse capabilities: %w", err)
	}
	return c, nil
}

func (c *Capabilities) weightsValid() error {
	for _, of := range []struct {
		name        string
		value, most float64
	}{
		{"weightStep", c.WeightStep, 100}, {"weightMin", c.WeightMin, 100}, {"weightMax", c.WeightMax, 100}, {"weightSum", c.WeightSum, 1_000_000},
	} {
		switch {
		case of.value < 0 || of.value > of.most:
			return fmt.Errorf("%s is %g; it may be 0 to %.10g", of.name, of.value, of.most)
		case of.value != 0 && !c.Weights:
			return fmt.Errorf("%s is about shares, and weights is not true; set it, or remove %s", of.name, of.name)
		}
	}
	if c.WeightMax != 0 && c.WeightMax < c.WeightMin {
		return fmt.Errorf("weightMax %g is less than weightMin %g", c.WeightMax, c.WeightMin)
	}
	return nil
}

// StepRefusal is why a step cannot be expressed, as the end of a sentence, or "".
// Nil capabilities are those of a script that says nothing about itself: it
// refuses by an error of its own.
func (c *Capabilities) StepRefusal(in Input) string {
	switch {
	case c == nil && in.Fine != 0:
		return "its script says nothing of shares finer than 1%; add weightStep to its capabilities, or round the share"
	case c == nil && in.Mirror != 0:
		return "its script says nothing of mirror; add it to its capabilities, or remove it from the step"
	case c == nil && in.Routes != nil:
		return "its script says nothing of routes; add them to its capabilities, or remove them from trafficRoutings"
	}
	if c == nil || c.Referenced {
		return ""
	}
	if why := c.classRefusal(in); why != "" {
		return why
	}
	why := c.capabilityRefusal(in)
	if why != "" && c.Instead != "" {
		why += "; " + c.Instead
	}
	return why
}

func (c *Capabilities) capabilityRefusal(in Input) string {
	switch {
	case in.StableService == in.CanaryService && !c.SharedService:
		return fmt.Sprintf("it tells versions apart by their Services, and both stand behind Service %s; let the release make a canary Service (disableGenerateCanaryService: false)", in.StableService)
	case in.Routes != nil && !c.Routes:
		return "its rules have no names; remove routes from trafficRoutings"
	case len(in.Others) > 0 && c.SeveralReleases != nil && !*c.SeveralReleases:
		return fmt.Sprintf("it takes one release at a time, and %s is on the object; wait until that has ended", strings.Join(in.Others, " and "))
	case in.CanaryWeight >= 0 && !c.Weights:
		return "it cannot share traffic by weight"
	case in.CanaryWeight >= 0 && !c.InRange(in.CanaryPercent()):
		return fmt.Sprintf("it takes shares of %g%% to %g%%, and the step asks for %g%%", c.WeightMin, c.maxWeight(), in.CanaryPercent())
	case in.Fine != 0 && !c.isShareAllowed(in.Fine):
		return fmt.Sprintf("it shares traffic in steps of %g%%", cmp.Or(c.WeightStep, 1))
	case len(in.Matches) > 0 && len(c.Paths)+len(c.Headers)+len(c.QueryParams) == 0:
		return "it takes no matches"
	case len(in.Matches) > 1 && !c.Or:
		return "it takes one match a step"
	case len(in.Matches) > 0 && in.CanaryWeight >= 0 && !c.MatchesAndWeight:
		return "it cannot have matches and a share of the traffic in one step"
	}
	if in.Mirror != 0 && !c.Mirror {
		return "it cannot copy requests (mirror)"
	}
	if in.Mirror != 0 && c.MirrorStep != 0 && !isMultiple(in.Mirror, c.MirrorStep) {
		return fmt.Sprintf("it copies requests in steps of %g%%, and mirror asks for %g%%", c.MirrorStep, in.Mirror)
	}
	for i, rule := range in.Rules {
		if why := c.ruleRefusal(rule); why != "" {
			return fmt.Sprintf("matches[%d]: %s", i, why)
		}
	}
	for i, match := range in.Matches {
		if why := c.matchRefusal(match); why != "" {
			return fmt.Sprintf("matches[%d]: %s", i, why)
		}
	}
	if why := c.modifierRefusal(in.RequestHeaderModifier); why != "" {
		return why
	}
	if in.RequestHeaderModifier != nil && in.Mirror != 0 && len(in.Matches) == 0 && in.CanaryWeight < 0 {
		return "requestHeaderModifier changes requests that go to the canary, and the step only copies requests (mirror)"
	}
	if c.HeadersOfMatches && in.changesShare() {
		return "it changes headers of requests that match, and not of a share of the traffic"
	}
	return c.featureRefusal(in)
}

// changesShare reports whether headers of a share of the requests are to be
// changed, whichever these are.
func (in Input) changesShare() bool {
	return in.RequestHeaderModifier != nil && (len(in.Matches) == 0 || in.Tag != nil && in.CanaryWeight > 0)
}

// featureRefusal is about what the class of the Gateway lacks.
func (c *Capabilities) featureRefusal(in Input) string {
	if in.Unserved != "" {
		return in.Unserved
	}
	if in.Features == nil {
		return ""
	}
	asked := map[string]bool{
		"mirror": in.Mirror != 0, "mirrorShare": in.Mirror != 0 && in.Mirror < 100,
		"backendHeaderModifier": in.changesShare(),
	}
	for _, match := range in.Matches {
		params, _ := memberOf(match, "queryParams").([]any)
		asked["queryParams"] = asked["queryParams"] || len(params) > 0
	}
	for _, part := range slices.Sorted(maps.Keys(c.Needs)) {
		if feature := c.Needs[part]; asked[part] && !slices.Contains(in.Features, feature) {
			return fmt.Sprintf("the GatewayClass of its Gateway does not support %s (its status.supportedFeatures lists what it does)", feature)
		}
	}
	return ""
}

// isShareAllowed reports whether a share is a multiple of the step.
func (c *Capabilities) isShareAllowed(percent float64) bool {
	return isMultiple(percent, cmp.Or(c.WeightStep, 1))
}

func (c *Capabilities) maxWeight() float64 { return cmp.Or(c.WeightMax, 100) }

// InRange reports whether a step may ask for a share, in percent, as far as
// WeightMin and WeightMax go.
func (c *Capabilities) InRange(percent float64) bool {
	return percent >= c.WeightMin && percent <= c.maxWeight()
}

func isMultiple(of, step float64) bool {
	steps := of / step
	return math.Abs(steps-math.Round(steps)) < 1e-6
}

// ruleRefusal is about what is told as a regular expression.
func (c *Capabilities) ruleRefusal(rule any) string {
	if slices.Contains(c.Headers, regularExpression) {
		return ""
	}
	if memberOf(rule, "cookie") != nil {
		return "it cannot route by a cookie"
	}
	headers, _ := memberOf(rule, "headers").([]any)
	if len(c.Headers) > 0 && slices.ContainsFunc(headers, func(h any) bool { return memberOf(h, "type") == prefix }) {
		return "it compares headers by " + strings.Join(c.Headers, " and ") + ", not by " + prefix
	}
	return ""
}

func (c *Capabilities) matchRefusal(match any) string {
	m, _ := match.(map[string]any)
	conditions := 0
	for _, part := range []struct {
		name, what string
		can        []string
	}{{"path", "the path", c.Paths}, {"headers", "headers", c.Headers}, {"queryParams", "query parameters", c.QueryParams}} {
		list, _ := m[part.name].([]any)
		if one, ok := m[part.name].(map[string]any); ok {
			list = []any{one}
		}
		for _, condition := range list {
			conditions++
			how := "Exact"
			if part.name == "path" {
				how = "PathPrefix"
			}
			if said, ok := memberOf(condition, "type").(string); ok && said != "" {
				how = said
			}
			if len(part.can) == 0 {
				return fmt.Sprintf("it cannot route by %s", part.what)
			}
			if !slices.Contains(part.can, how) {
				return fmt.Sprintf("it compares %s by %s, not by %s", part.what, strings.Join(part.can, " and "), how)
			}
		}
	}
	switch {
	case conditions == 0:
		return "it has no condition; give it a path, headers or queryParams"
	case conditions > 1 && !c.And:
		return "it takes one condition"
	}
	return ""
}

func (c *Capabilities) modifierRefusal(modifier any) string {
	for _, verb := range []string{"set", "add", "remove"} {
		if list, _ := memberOf(modifier, verb).([]any); len(list) > 0 && !slices.Contains(c.HeaderModifier, verb) {
			return fmt.Sprintf("it cannot %s request headers", verb)
		}
	}
	return ""
}

func memberOf(v any, key string) any {
	m, _ := v.(map[string]any)
	return m[key]
}

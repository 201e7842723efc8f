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

// Capabilities say what a kind of gateway object can express, and so which steps its
// script supports. They are in capabilities.yaml, next to the script. A step must
// not use a capability that no field names. What a step asks for is in [Input]; to
// add a field of both, follow Mirror through pkg.
type Capabilities struct {
	// Referenced: objects of the kind only define targets of other routes, in every
	// step. All other fields are about kinds that route.
	Referenced bool `json:"referenced,omitempty"`
	// Weights: the canary may get a share of the traffic. WeightStep is the least
	// difference between two shares, in percent; 1 if absent.
	Weights    bool    `json:"weights,omitempty"`
	WeightStep float64 `json:"weightStep,omitempty"`
	// WeightMin and WeightMax are the least and the greatest share that a step may
	// ask for, in percent; if absent, there is no such limit. WeightSum is the
	// required sum of the weights of a rule's backends; if absent, any sum is
	// allowed.
	WeightMin float64 `json:"weightMin,omitempty"`
	WeightMax float64 `json:"weightMax,omitempty"`
	WeightSum float64 `json:"weightSum,omitempty"`
	// Sticky says how a step with a share affects users with a sticky session, which keeps a user on one pod. kept: the gateway keeps them on one
	// version. broken: it sends them to both. refused: the script refuses the step. Absent: unknown.
	Sticky string `json:"sticky,omitempty"`
	// SeveralReleases: several releases may share an object; true if absent.
	SeveralReleases *bool `json:"severalReleases,omitempty"`
	// Paths, Headers and QueryParams are the supported comparisons of each: Exact,
	// RegularExpression, and for paths PathPrefix.
	Paths       []string `json:"paths,omitempty"`
	Headers     []string `json:"headers,omitempty"`
	QueryParams []string `json:"queryParams,omitempty"`
	// And: a match may have several conditions. Or: a step may have several matches.
	// MatchesAndWeight: a step may have matches and a weight.
	And              bool `json:"and,omitempty"`
	Or               bool `json:"or,omitempty"`
	MatchesAndWeight bool `json:"matchesAndWeight,omitempty"`
	// HeaderOrCookie: without Or, a step may have two matches if one of them is a
	// header with the name canary-by-cookie, whose value is the name of a cookie.
	HeaderOrCookie bool `json:"headerOrCookie,omitempty"`
	// HeaderModifier are the supported changes of request headers: set, add, remove.
	// HeadersOfMatches: a step may change headers only of requests that match, and
	// not of a share of the requests.
	HeaderModifier   []string `json:"headerModifier,omitempty"`
	HeadersOfMatches bool     `json:"headersOfMatches,omitempty"`
	// TCP: the kind may share connections that are not HTTP requests.
	TCP bool `json:"tcp,omitempty"`
	// Routes: rules have names, so that a release may be limited to some of them.
	Routes bool `json:"routes,omitempty"`
	// Tells are the fields of obj that a script gets only by naming them here:
	// ports, targets and services. ports are the ports of the stable Service, and
	// targets the revisions of its pods. The executor writes the object again when
	// one of these two changes.
	Tells []string `json:"tells,omitempty"`
	// Mirror: requests may be copied to the canary. MirrorStep is the least
	// difference between two mirrored shares, in percent; any difference if absent.
	Mirror     bool    `json:"mirror,omitempty"`
	MirrorStep float64 `json:"mirrorStep,omitempty"`
	// Needs are the features that a GatewayClass must support for a part of a step.
	// The parts are mirror, mirrorShare (less than all requests), queryParams,
	// headerModifier, and backendHeaderModifier (headerModifier in a step with a
	// share of the traffic).
	Needs map[string]string `json:"needs,omitempty"`
	// Controllers are the Ingress controllers that understand the output of the
	// script, by their names in docs/gateways.md. Objects of other controllers'
	// classes are refused.
	Controllers []string `json:"controllers,omitempty"`
	// OneCanary: the controller uses only one of several canary Ingresses for a host
	// and path.
	OneCanary bool `json:"oneCanary,omitempty"`
	// SharedService: both versions may share one Service.
	SharedService bool `json:"sharedService,omitempty"`
	// Backends are kinds other than Service that a rule may lead to, by the name of
	// the Service. The user creates the backend of the canary.
	Backends []GroupVersionKind `json:"backends,omitempty"`
	// Reads are kinds of objects that the gateway object names in a field of its
	// spec. The script gets these objects in obj.reads, and the objects that they
	// name. The executor runs the script again when one of them changes.
	Reads []Reads `json:"reads,omitempty"`
	// Creates are the kinds of objects that the script may create, in the namespace
	// of the object that it shapes.
	Creates []GroupVersionKind `json:"creates,omitempty"`
	// Orders: created objects need a number that no other object has.
	Orders *Orders `json:"orders,omitempty"`
	// LagSeconds is how long a gateway may use its old routes after a write of the
	// object. It is set if that is longer than the default of gracePeriodSeconds.
	LagSeconds int `json:"lagSeconds,omitempty"`
	// Instead is the advice for a step that the kind cannot express.
	Instead string `json:"instead,omitempty"`
}

// Fields of obj that a script may ask for.
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

// Orders are the numbers with which a load balancer sorts the rules of all objects
// of its class. Two objects must not have the same number. The numbers of a canary
// come before the number of its main object.
type Orders struct {
	// Annotation holds the number.
	Annotation string `json:"annotation"`
	// Default is the number of an object without the annotation, Min the least
	// number.
	Default int `json:"default"`
	Min     int `json:"min"`
}

// ParseCapabilities reads a capabilities.yaml. An unknown field or comparison is an
// error, because a misspelt one would refuse steps that the kind supports.
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

// StepRefusal returns the reason why the kind cannot express a step, as the end of a
// sentence, or "". A script with nil capabilities refuses by an error of its own.
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
	case len(in.Matches) > 1 && !c.takesSeveral(in.Matches):
		return c.severalRefusal()
	case len(in.Matches) > 0 && in.CanaryWeight >= 0 && !c.MatchesAndWeight:
		return "it cannot have matches and a share of the traffic in one step"
	}
	if in.Mirror != 0 && !c.Mirror {
		return "it cannot copy requests (mirror)"
	}
	if in.Mirror != 0 && c.MirrorStep != 0 && !isMultiple(in.Mirror, c.MirrorStep) {
		return fmt.Sprintf("it copies requests in steps of %g%%, and mirror asks for %g%%", c.MirrorStep, in.Mirror)
	}
	if why := c.conditionRefusal(in); why != "" {
		return why
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

func (c *Capabilities) severalRefusal() string {
	if c.HeaderOrCookie {
		return "it takes one match a step, or a header and a cookie (" + cookieHeader + ")"
	}
	return "it takes one match a step"
}

// conditionRefusal refuses conditions of matches.
func (c *Capabilities) conditionRefusal(in Input) string {
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
	return ""
}

// changesShare reports whether the step changes headers of a share of the requests,
// regardless of their content.
func (in Input) changesShare() bool {
	return in.RequestHeaderModifier != nil && (len(in.Matches) == 0 || in.Tag != nil && in.CanaryWeight > 0)
}

// featureRefusal refuses steps that need a feature which the class of the Gateway
// lacks.
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

// isShareAllowed reports whether a share is a multiple of WeightStep.
func (c *Capabilities) isShareAllowed(percent float64) bool {
	return isMultiple(percent, cmp.Or(c.WeightStep, 1))
}

func (c *Capabilities) maxWeight() float64 { return cmp.Or(c.WeightMax, 100) }

// InRange reports whether a share, in percent, lies between WeightMin and WeightMax.
func (c *Capabilities) InRange(percent float64) bool {
	return percent >= c.WeightMin && percent <= c.maxWeight()
}

func isMultiple(of, step float64) bool {
	steps := of / step
	return math.Abs(steps-math.Round(steps)) < 1e-6
}

// ruleRefusal refuses conditions that scripts get as regular expressions.
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

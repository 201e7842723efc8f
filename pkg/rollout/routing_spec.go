package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// grace is spent before something goes away that traffic might still reach: the longest that any Service asks for.
func (s Spec) grace() time.Duration {
	var longest time.Duration
	for _, r := range s.Routing {
		longest = max(longest, r.Grace)
	}
	return longest
}

// parseRoutings reads the entries of trafficRoutings. Those that name the same Service become one.
func parseRoutings(p plan) ([]Routing, error) {
	var all []Routing
	for i, entry := range p.routings {
		next, err := parseRouting(p, i, entry)
		if err != nil {
			return nil, err
		}
		for _, known := range all {
			if same := known.shares(next); same != nil {
				return nil, fmt.Errorf("trafficRoutings[%d]: %s is named by another entry as well: name each gateway object once", i, same)
			}
			if next.Service != known.Service && (next.Service == known.CanaryService || next.CanaryService == known.Service) {
				return nil, fmt.Errorf("trafficRoutings[%d]: the canary Service of one of Services %s and %s would have the name of the other: rename one of the two",
					i, known.Service, next.Service)
			}
		}
		at := slices.IndexFunc(all, func(r Routing) bool { return r.Service == next.Service })
		switch {
		case at < 0:
			all = append(all, next)
		case all[at].CanaryService != next.CanaryService:
			return nil, fmt.Errorf("trafficRoutings[%d]: another entry for Service %s says otherwise whether it has a canary Service: say the same in both", i, next.Service)
		default:
			all[at].Objects = append(all[at].Objects, next.Objects...)
			all[at].Grace = max(all[at].Grace, next.Grace)
		}
	}
	return all, nil
}

// shares returns a gateway object that both entries name, in whatever version; nil when there is none. A gateway object keeps of each
// release by which Service it is routed.
func (r Routing) shares(other Routing) *Ref {
	for i, mine := range r.Objects {
		for _, theirs := range other.Objects {
			if mine.group() == theirs.group() && mine.Kind == theirs.Kind && mine.Name == theirs.Name {
				return &r.Objects[i]
			}
		}
	}
	return nil
}

func parseRouting(p plan, i int, r api.TrafficRoutingRef) (Routing, error) {
	if r.Service == "" {
		return Routing{}, errors.New("trafficRoutings: service is required: name the Service that selects the pods of the workload")
	}
	if r.Gateway != nil && (r.Gateway.HTTPRouteName == nil || *r.Gateway.HTTPRouteName == "") {
		return Routing{}, errors.New("trafficRoutings: gateway.httpRouteName is required: name the HTTPRoute that routes to the Service")
	}
	routing := Routing{Service: r.Service, CanaryService: r.Service + api.SuffixCanary, Grace: 3 * time.Second}
	if r.GracePeriodSeconds != nil {
		routing.Grace = time.Duration(*r.GracePeriodSeconds) * time.Second
	}
	disabled := r.DisableGenerateCanaryService
	if disabled != nil && !*disabled && p.sharedService {
		return Routing{}, errContradiction(i)
	}
	if disabled == nil && p.sharedService {
		disabled = &p.sharedService
	}
	if r.CreateCanaryService != nil && disabled != nil && *r.CreateCanaryService == *disabled {
		return Routing{}, errContradiction(i)
	}
	if disabled != nil && *disabled || r.CreateCanaryService != nil && !*r.CreateCanaryService {
		routing.CanaryService = r.Service
	}
	for _, refs := range [][]api.ObjectRef{r.CustomNetworkRefs, r.NetworkRefs} {
		for _, ref := range refs {
			routing.Objects = append(routing.Objects, Ref{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name})
		}
	}
	if len(routing.Objects) == 0 && r.Ingress == nil && r.Gateway == nil {
		return Routing{}, errors.New("TrafficRoutings are not set: give one of ingress, gateway or customNetworkRefs")
	}
	return routing, nil
}

func errContradiction(i int) error {
	return fmt.Errorf("trafficRoutings[%d]: createCanaryService and disableGenerateCanaryService contradict each other; remove one", i)
}

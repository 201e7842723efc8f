package rollout

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"sluice.dev/sluice/pkg/api"
)

// DefaultGrace is the default in the CustomResourceDefinition. Sluice cannot tell whether an owner wrote this value.
const DefaultGrace = 3 * time.Second

// parseRoutings reads the entries of trafficRoutings. It merges entries that name the same Service.
func parseRoutings(p plan) ([]Routing, error) {
	var all []Routing
	for i, entry := range p.routings {
		next, err := parseRouting(p, i, entry)
		if err != nil {
			return nil, err
		}
		for _, known := range all {
			if err := known.takesBeside(&next); err != nil {
				return nil, fmt.Errorf("trafficRoutings[%d]: %w", i, err)
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
		case !reflect.DeepEqual(all[at].Tag, next.Tag):
			return nil, fmt.Errorf("trafficRoutings[%d]: another entry for Service %s has another tag: write the same in both", i, next.Service)
		default:
			all[at].Only = append(all[at].Only, next.Only...)
			all[at].Objects = append(all[at].Objects, next.Objects...)
			all[at].Grace = max(all[at].Grace, next.Grace)
		}
	}
	return all, nil
}

// takesBeside returns an error if a release cannot use both entries. Several Services may name the same gateway object, except an Ingress: it has
// only one canary Ingress. If next names an object in another API version, it gets the version of r.
func (r Routing) takesBeside(next *Routing) error {
	for _, mine := range r.Objects {
		for i, theirs := range next.Objects {
			switch {
			case mine.Group() != theirs.Group() || mine.Kind != theirs.Kind || mine.Name != theirs.Name:
			case r.Service == next.Service:
				return fmt.Errorf("%s is named by another entry for the same Service as well: name it once", mine)
			case mine.Class != "" || theirs.Class != "":
				return fmt.Errorf("%s is named by another entry as well: let each Service have an Ingress of its own", mine)
			default:
				next.Objects[i] = mine
				for k := range next.Only {
					if next.Only[k].Object == theirs {
						next.Only[k].Object = mine
					}
				}
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
	routing := Routing{Service: r.Service, CanaryService: r.Service + api.SuffixCanary, Grace: DefaultGrace}
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
			routing.Objects = append(routing.Objects, RefOf(ref))
		}
	}
	if r.Gateway != nil {
		routing.Objects = append(routing.Objects, Ref{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: *r.Gateway.HTTPRouteName})
	}
	if r.Ingress != nil {
		routing.Objects = append(routing.Objects, IngressRef(r.Ingress.Name, r.Ingress.ClassType))
	}
	if len(r.Routes) > 0 {
		for _, object := range routing.Objects {
			routing.Only = append(routing.Only, OnlyRules{Object: object, Rules: r.Routes})
		}
	}
	routing.Tag = r.Tag
	if len(routing.Objects) == 0 {
		return Routing{}, errors.New("TrafficRoutings are not set: give one of ingress, gateway or customNetworkRefs")
	}
	return routing, nil
}

func errContradiction(i int) error {
	return fmt.Errorf("trafficRoutings[%d]: createCanaryService and disableGenerateCanaryService contradict each other; remove one", i)
}

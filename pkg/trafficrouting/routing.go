// Package trafficrouting decides about TrafficRoutings: which gateway objects the executor routes, and which it restores. It is a pure function of
// the observed state, and uses no client and no clock.
//
// Invariant: the executor removes the finalizer of a TrafficRouting only when no gateway object carries its routing any more.
package trafficrouting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Step is the step number under which a [rollout.Route] holds the rendering of the strategy. A TrafficRouting has only this step.
const Step int32 = 1

// Spec is the parsed and valid spec of a TrafficRouting.
type Spec struct {
	// Services each have at least one gateway object, and no two of them share an object.
	Services []Service
	// Grace is the longest grace period of all Services.
	Grace time.Duration
}

// Service is a Service for the pods of both versions, with the gateway objects that route its traffic.
type Service struct {
	Name string
	// PatchLabels and PatchAnnotations are added to the pods of the new version.
	PatchLabels, PatchAnnotations map[string]string
	Objects                       []rollout.Ref
	// Rules and Tag have the meaning of [rollout.Routing], for all objects.
	Rules []string
	Tag   *api.TrafficTag
}

// Parse reads the spec of a TrafficRouting. The error names the first wrong field and how to fix it.
func Parse(t *api.TrafficRouting) (Spec, error) {
	s := t.Spec.Strategy
	if s.Weight == nil && len(s.Matches) == 0 {
		return Spec{}, errors.New("strategy asks for nothing: set weight or matches")
	}
	if len(t.Spec.ObjectRef) == 0 {
		return Spec{}, errors.New("objectRef names nothing: give a service and the customNetworkRefs that route to it")
	}
	var spec Spec
	of := map[rollout.Ref]int{}
	for i, ref := range t.Spec.ObjectRef {
		service, err := parseService(ref)
		if err != nil {
			return Spec{}, fmt.Errorf("objectRef[%d]: %w", i, err)
		}
		for _, object := range service.Objects {
			if other, twice := of[object]; twice {
				return Spec{}, fmt.Errorf("objectRef[%d]: %s is in objectRef[%d] as well; name each gateway object once", i, object, other)
			}
			of[object] = i
		}
		spec.Services = append(spec.Services, service)
		spec.Grace = max(spec.Grace, graceOf(ref))
	}
	return spec, nil
}

func parseService(ref api.TrafficRoutingRef) (Service, error) {
	service := Service{Name: ref.Service, Rules: ref.Routes, Tag: ref.Tag}
	switch {
	case ref.Service == "":
		return service, errors.New("service is required: name the Service that the gateway objects route to")
	case ref.Gateway != nil:
		return service, errors.New("an HTTPRoute tells versions apart by their Services, and here both stand behind one: use customNetworkRefs with a kind that has subsets, such as VirtualService")
	}
	var objects []rollout.Ref
	for _, o := range slices.Concat(ref.CustomNetworkRefs, ref.NetworkRefs) {
		objects = append(objects, rollout.RefOf(o))
	}
	if ref.Ingress != nil {
		objects = append(objects, rollout.IngressRef(ref.Ingress.Name, ref.Ingress.ClassType))
	}
	for _, object := range objects {
		if slices.Contains(service.Objects, object) {
			return service, fmt.Errorf("%s is named twice; name each gateway object once", object)
		}
		service.Objects = append(service.Objects, object)
	}
	if len(service.Objects) == 0 {
		return service, errors.New("it names no gateway object: give customNetworkRefs or an ingress")
	}
	if m := ref.PatchPodTemplateMetadata; m != nil {
		service.PatchLabels, service.PatchAnnotations = m.Labels, m.Annotations
	}
	if t := ref.Tag; t != nil && t.Label != "" {
		service.PatchLabels = maps.Clone(service.PatchLabels)
		if service.PatchLabels == nil {
			service.PatchLabels = map[string]string{}
		}
		service.PatchLabels[t.Label] = t.Value
	}
	return service, nil
}

func graceOf(ref api.TrafficRoutingRef) time.Duration {
	if ref.GracePeriodSeconds == nil {
		return rollout.DefaultGrace
	}
	return time.Duration(*ref.GracePeriodSeconds) * time.Second
}

// RequestingRollouts returns the names of the Rollouts whose finalizers ask for a TrafficRouting.
func RequestingRollouts(finalizers []string) (names []string) {
	for _, f := range finalizers {
		if name, ok := strings.CutPrefix(f, api.FinalizerProgressingPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// IsApplied reports whether all gateway objects route as the current TrafficRouting says.
func IsApplied(t *api.TrafficRouting) bool {
	return t.Status.Phase == api.RoutingProgressing && t.Status.AppliedGeneration == t.Generation
}

// InactiveFor reports whether a TrafficRouting routes for no Rollout, or only for Rollouts other than user.
func InactiveFor(t *api.TrafficRouting, user string) bool {
	others := slices.ContainsFunc(RequestingRollouts(t.Finalizers), func(name string) bool { return name != user })
	return len(t.Status.Objects) == 0 || others && t.DeletionTimestamp == nil
}

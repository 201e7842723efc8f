package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// releaseFor returns the release for a gateway object, with the terms of all Services that the object routes.
func (s *Snapshot) releaseFor(g *gateway) traffic.Release {
	rel := traffic.Release{
		UID: string(s.rollout.UID), Namespace: s.rollout.Namespace, Name: s.rollout.Name,
		PatchLabels: s.spec.PatchLabels, PatchAnnotations: s.spec.PatchAnnotations, Epoch: sluiceStatusOf(s.rollout).Epoch,
	}
	for _, routing := range g.carries {
		rel.Carries = append(rel.Carries, routing.Service)
		for _, other := range s.gateways {
			if other != g && other.live != nil && slices.Contains(routing.Objects, other.ref) {
				if rel.Subsets == nil {
					rel.Subsets = map[string][]string{}
				}
				rel.Subsets[routing.Service] = append(rel.Subsets[routing.Service], traffic.SubsetsOf(other.live.Object["spec"], routing.Service, s.rollout.Namespace)...)
			}
		}
	}
	for i, routing := range s.spec.Routing {
		switch {
		case !slices.Contains(routing.Objects, g.ref):
		case rel.Service == "":
			rel.Service, rel.CanaryService, rel.Terms = routing.Service, routing.CanaryService, s.serviceTerms(g, i)
		default:
			rel.Further = append(rel.Further, traffic.Served{Service: routing.Service, CanaryService: routing.CanaryService, Terms: s.serviceTerms(g, i)})
		}
	}
	return rel
}

// serviceTerms returns the terms of one entry of the routing, with the facts that the script of the object asks for.
func (s *Snapshot) serviceTerms(g *gateway, entry int) traffic.Terms {
	routing := s.spec.Routing[entry]
	terms := traffic.Terms{Rules: routing.AllowedRules(g.ref), Tag: routing.Tag}
	if slices.Contains(g.scriptInputs, script.TellPorts) && entry < len(s.backends) {
		terms.Ports = portsOf(s.backends[entry].stable)
	}
	if c := s.rollout.Status.Common(); c != nil && slices.Contains(g.scriptInputs, script.TellTargets) {
		terms.Revisions = &script.Revisions{Label: s.revisionLabel(), Stable: c.StableRevision, Canary: c.PodTemplateHash}
	}
	return terms
}

func portsOf(svc *corev1.Service) []script.Port {
	if svc == nil {
		return nil
	}
	var ports []script.Port
	for _, p := range svc.Spec.Ports {
		port := script.Port{Name: p.Name, Port: p.Port, TargetPort: int64(p.TargetPort.IntVal), Protocol: string(p.Protocol)}
		if p.TargetPort.Type == intstr.String {
			port.TargetPort = p.TargetPort.StrVal
		}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		ports = append(ports, port)
	}
	return ports
}

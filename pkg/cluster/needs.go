package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// This file is about what pods of the stable version need and those of the new one do not. A tool that deploys the new version may delete it while
// stable pods still serve, and one that restarts does not start.

const (
	// needFresh is how long a look at a need counts, needRetried how long one that failed does.
	needFresh   = time.Minute
	needRetried = 10 * time.Second
)

// needKey is an object that pods of a namespace need.
type needKey struct {
	namespace string
	need      workload.Need
}

// needSeen is what was seen of it. It is unknown where the API server does not tell, and forbidden where the executor may not look: of Secrets it may
// only where a Role of their namespace lets it.
type needSeen struct {
	there, unknown, forbidden, kept bool
	pruner                          workload.Pruner
}

// stableNeeds are the needs of stable pods that the template under way does not have.
func (s *Snapshot) stableNeeds() []workload.Need {
	if !s.state().Releasing() {
		return nil
	}
	hash := machineOf(s.rollout).StableRevision
	if s.object.there() {
		return s.object.NeedsOfOlder(hash)
	}
	_, set := s.setWith(hash)
	if set == nil {
		return nil
	}
	return workload.NeedsOfOlder(set.Spec.Template, s.deployment.Spec.Template)
}

// readNeeds looks for what stable pods need, once in a while.
func (o *observation) readNeeds(ctx context.Context) error {
	if o.wanted != allParts() {
		return nil
	}
	seen := map[workload.Need]needSeen{}
	needs := o.snapshot.stableNeeds()
	for _, need := range needs {
		is, err := o.readNeed(ctx, need)
		if err != nil {
			return err
		}
		seen[need] = is
	}
	o.snapshot.atRisk = atRisk(o.namespace, needs, seen)
	return nil
}

func (o *observation) readNeed(ctx context.Context, need workload.Need) (needSeen, error) {
	key := needKey{o.namespace, need}
	if known, ok := o.client.needs.Get(key); ok {
		return known.(needSeen), nil
	}
	if o.source == fromMemory {
		return needSeen{}, errUnknown
	}
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(need.Kind) + "s")
	o.client.reads.live.Add(1)
	found, err := within(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.client.metadata.Resource(resource).Namespace(o.namespace).Get(ctx, need.Name, metav1.GetOptions{})
	})
	is, fresh := needSeen{}, needFresh
	switch {
	case IsForbidden(err):
		is.forbidden = true
	case isNotFound(err):
	case err != nil:
		is.unknown, fresh = true, needRetried
	default:
		is.there = true
		is.pruner, is.kept = workload.PrunerOf(found)
	}
	o.client.needs.Add(key, is, fresh)
	return is, nil
}

// atRisk is what to say of the needs of stable pods: of those that are gone, else of those that a tool may delete; nil when all is well.
func atRisk(namespace string, needs []workload.Need, seen map[workload.Need]needSeen) *rollout.Problem {
	var gone, told []string
	for _, need := range needs {
		switch is := seen[need]; {
		case is.forbidden && need.Generated():
			told = append(told, fmt.Sprintf("a tool may delete %s, which Sluice may not look at, once its sources do not have it", need))
		case is.forbidden, is.unknown:
		case !is.there:
			gone = append(gone, need.String())
		case is.pruner.Tool != "" && !is.kept:
			told = append(told, fmt.Sprintf("%s deletes %s once its sources do not have it; to keep it: kubectl annotate %s %s -n %s --overwrite %s",
				is.pruner.Tool, need, strings.ToLower(need.Kind), need.Name, namespace, is.pruner.Annotation()))
		}
	}
	switch {
	case len(gone) > 0:
		return &rollout.Problem{Reason: rollout.ReasonNeedGone, Message: fmt.Sprintf(
			"Pods of the stable version need what is not there, so that none of them can start again: %s; create it again, and have the tool that deletes it keep it until the release is over "+
				"(Argo CD: argocd.argoproj.io/sync-options: Prune=false; Flux: kustomize.toolkit.fluxcd.io/prune: disabled; Helm: helm.sh/resource-policy: keep)", strings.Join(gone, ", "))}
	case len(told) > 0:
		return &rollout.Problem{Reason: rollout.ReasonNeedPrunable, Message: "Pods of the stable version need what the new version does not, until the release is over: " + strings.Join(told, "; ")}
	}
	return nil
}

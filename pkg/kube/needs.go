package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

// This file is about objects that stable pods need and new pods do not. A tool that deploys the new version may delete
// such an object while stable pods still serve. A stable pod that restarts then does not start.

const (
	// The executor reads an object again after needTTL, and after needErrorTTL if the API server answered with an error.
	needTTL      = time.Minute
	needErrorTTL = 10 * time.Second
)

// needKey is an object that pods of a namespace need.
type needKey struct {
	namespace string
	need      workload.RequiredObject
}

// needState is what the executor knows of an object that pods need.
type needState int

const (
	// needUnknown means that the API server answered with an error.
	needUnknown needState = iota
	// needForbidden means that the executor may not read the object. For a Secret it may only if a Role of the
	// namespace allows it.
	needForbidden
	needGone
	needThere
	// needPrunable means that a tool manages the object and may delete it.
	needPrunable
)

type needResult struct {
	state  needState
	pruner workload.Pruner
}

// stableNeeds returns the objects that stable pods need and that pods of the new template do not need.
func (s *Snapshot) stableNeeds() []workload.RequiredObject {
	if !s.releaseState().Releasing() {
		return nil
	}
	hash := sluiceStatusOf(s.rollout).StableRevision
	if s.object.isPresent() {
		return s.object.RequiredByOlder(hash)
	}
	_, set := s.replicaSetWith(hash)
	if set == nil {
		return nil
	}
	return workload.RequiredByOlder(set.Spec.Template, s.deployment.Spec.Template)
}

// readNeeds reads the metadata of the objects that stable pods need, if the client has not read it lately.
func (o *observation) readNeeds(ctx context.Context) error {
	if o.wanted != allParts() {
		return nil
	}
	seen := map[workload.RequiredObject]needResult{}
	needs := o.snapshot.stableNeeds()
	for _, need := range needs {
		is, err := o.readNeed(ctx, need)
		if err != nil {
			return err
		}
		seen[need] = is
	}
	o.snapshot.needProblem = needsProblem(o.namespace, needs, seen)
	return nil
}

func (o *observation) readNeed(ctx context.Context, need workload.RequiredObject) (needResult, error) {
	key := needKey{o.namespace, need}
	if known, ok := o.client.needs.Get(key); ok {
		return known.(needResult), nil
	}
	if o.source == fromMemory {
		return needResult{}, errNotCached
	}
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(need.Kind) + "s")
	o.client.readCounts.live.Add(1)
	found, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.client.metadata.Resource(resource).Namespace(o.namespace).Get(ctx, need.Name, metav1.GetOptions{})
	})
	is, fresh := needResult{state: needThere}, needTTL
	switch {
	case apiclient.IsForbidden(err):
		is.state = needForbidden
	case apiclient.IsNotFound(err):
		is.state = needGone
	case err != nil:
		is.state, fresh = needUnknown, needErrorTTL
	default:
		if pruner, kept := workload.PrunerOf(found); pruner.Tool != "" && !kept {
			is = needResult{needPrunable, pruner}
		}
	}
	o.client.needs.Add(key, is, fresh)
	return is, nil
}

// needsProblem returns the problem that objects which stable pods need are gone. If none is gone, it returns the
// problem that a tool may delete them, or nil.
func needsProblem(namespace string, needs []workload.RequiredObject, seen map[workload.RequiredObject]needResult) *rollout.Problem {
	var gone, told []string
	for _, need := range needs {
		switch is := seen[need]; is.state {
		case needForbidden:
			if need.HasGeneratedName() {
				told = append(told, fmt.Sprintf("a tool may delete %s, which Sluice may not look at, once its sources do not have it", need))
			}
		case needGone:
			gone = append(gone, need.String())
		case needPrunable:
			told = append(told, fmt.Sprintf("%s deletes %s once its sources do not have it; to keep it: kubectl annotate %s %s -n %s --overwrite %s",
				is.pruner.Tool, need, strings.ToLower(need.Kind), need.Name, namespace, is.pruner.Annotation()))
		}
	}
	switch {
	case len(gone) > 0:
		return &rollout.Problem{Reason: rollout.ReasonNeedGone, Message: fmt.Sprintf(
			"Pods of the stable version need objects that do not exist, so no such pod can start again: %s; create them again, and have the tool that deletes them keep them until the release is over "+
				"(Argo CD: argocd.argoproj.io/sync-options: Prune=false; Flux: kustomize.toolkit.fluxcd.io/prune: disabled; Helm: helm.sh/resource-policy: keep)", strings.Join(gone, ", "))}
	case len(told) > 0:
		return &rollout.Problem{Reason: rollout.ReasonNeedPrunable, Message: "Pods of the stable version need what the new version does not, until the release is over: " + strings.Join(told, "; ")}
	}
	return nil
}

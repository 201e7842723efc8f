package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/traffic"
)

// Observe reads everything that the next step of a Rollout depends on. What a person must mend comes as problems in the snapshot;
// an error is for [IsGone], or passes by itself and calls for another try.
func (c *Client) Observe(ctx context.Context, key types.NamespacedName) (*Snapshot, error) {
	r, err := c.getRollout(ctx, key)
	if err != nil {
		return nil, onRollout("read", &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, err)
	}
	s := &Snapshot{rollout: r}
	if s.spec, err = rollout.Parse(r); err != nil {
		s.AddProblem(rollout.Problem{Reason: rollout.HoldInvalidSpec, Blind: true, Message: fmt.Sprintf("The Rollout is not valid: %s", err)})
		return s, nil
	}
	o := &observation{client: c, snapshot: s, namespace: key.Namespace}
	if err := o.run(ctx); err != nil {
		return nil, fmt.Errorf("observe Rollout %s: %w", key, err)
	}
	s.look()
	return s, nil
}

// observation is one Observe: reads that run side by side, each with a field of the snapshot that is its own.
type observation struct {
	client    *Client
	snapshot  *Snapshot
	namespace string
	reads     *errgroup.Group
	scripts   script.ConfigMap

	mu sync.Mutex // guards snapshot.problems
}

func (o *observation) run(ctx context.Context) error {
	o.reads, ctx = errgroup.WithContext(ctx)
	s := o.snapshot
	if isDeployment(s.spec.Workload) {
		o.read(ctx, o.target("get", "apps", "deployments", s.spec.Workload.Name), func(bounded context.Context) error {
			return o.readWorkload(ctx, bounded)
		})
		o.reads.Go(func() error {
			if p := o.client.policies.missing(ctx); p != nil {
				o.problem(*p)
			}
			return nil
		})
	}
	name := s.spec.Workload.Name + api.SuffixCanary
	o.read(ctx, o.target("get", "apps", "deployments", name), func(ctx context.Context) (err error) {
		s.canary, err = found(o.client.apps.Deployments(o.namespace).Get(ctx, name, metav1.GetOptions{}))
		return err
	})
	if s.state().InStep() {
		o.readPods(ctx)
	}
	o.readRouting(ctx)
	if err := o.reads.Wait(); err != nil {
		return err
	}
	o.findScripts()
	o.checkCopies()
	return nil
}

func isDeployment(ref rollout.Ref) bool {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return group == appsv1.GroupName && ref.Kind == "Deployment"
}

// read runs one read beside the others. A missing permission is a problem, everything else that fails an error.
func (o *observation) read(ctx context.Context, on target, call func(context.Context) error) {
	o.reads.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		err := call(ctx)
		if IsForbidden(err) {
			o.problem(forbidden(on, err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s %s %s: %w", on.verb, on.resource, on.name, err)
		}
		return nil
	})
}

func (o *observation) problem(p rollout.Problem) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.snapshot.problems = append(o.snapshot.problems, p)
}

func (o *observation) target(verb, group, resource, name string) target {
	return target{verb: verb, group: group, resource: resource, namespace: o.namespace, name: name}
}

// found turns an object that does not exist into nil.
func found[T any](object *T, err error) (*T, error) {
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object, nil
}

// readWorkload reads the Deployment, then what hangs on it: the ReplicaSets of it and of its canary, whose labels it selects as
// well, and the other Rollout that claims it. bounded is for the first read only, ctx for those that it starts.
func (o *observation) readWorkload(ctx, bounded context.Context) error {
	s, c := o.snapshot, o.client
	d, err := found(c.apps.Deployments(o.namespace).Get(bounded, s.spec.Workload.Name, metav1.GetOptions{}))
	if err != nil {
		return err
	}
	s.deployment = d
	selector := labels.Set{api.LabelRolloutUID: string(s.rollout.UID)}.String()
	if d != nil && d.Spec.Selector != nil {
		selector = metav1.FormatLabelSelector(d.Spec.Selector)
	}
	o.read(ctx, o.target("list", "apps", "replicasets", ""), func(ctx context.Context) error {
		list, err := c.apps.ReplicaSets(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for i := range list.Items {
			s.sets = append(s.sets, &list.Items[i])
		}
		return nil
	})
	if d == nil {
		return nil
	}
	if rival := d.Annotations[api.AnnotationRollout]; rival != "" && rival != s.rollout.Name {
		o.read(ctx, o.target("get", api.Group, "rollouts", rival), func(ctx context.Context) error { return o.readRival(ctx, rival) })
	}
	return nil
}

// readRival finds out whether another Rollout whose name is on the workload still has a right to it.
func (o *observation) readRival(ctx context.Context, name string) error {
	r, err := found(o.client.getRollout(ctx, types.NamespacedName{Namespace: o.namespace, Name: name}))
	if err != nil || r == nil || r.DeletionTimestamp != nil {
		return err
	}
	spec, err := rollout.Parse(r)
	if err == nil && isDeployment(spec.Workload) && spec.Workload.Name == o.snapshot.spec.Workload.Name {
		o.snapshot.rival = name
	}
	return nil
}

// readRouting reads the Services and the gateway objects.
func (o *observation) readRouting(ctx context.Context) {
	s, c, routing := o.snapshot, o.client, o.snapshot.spec.Routing
	if routing == nil {
		return
	}
	services := c.core.Services(o.namespace)
	o.read(ctx, o.target("get", "", "services", routing.Service), func(ctx context.Context) (err error) {
		s.stableService, err = found(services.Get(ctx, routing.Service, metav1.GetOptions{}))
		return err
	})
	if routing.SeparateService() {
		o.read(ctx, o.target("get", "", "services", routing.CanaryService), func(ctx context.Context) (err error) {
			s.canaryService, err = found(services.Get(ctx, routing.CanaryService, metav1.GetOptions{}))
			return err
		})
		if s.state().Releasing() {
			o.readEndpoints(ctx, routing.CanaryService)
		}
	}
	for _, ref := range traffic.Order(routing.Objects) {
		g := &gateway{ref: ref}
		s.gateways = append(s.gateways, g)
		o.readGateway(ctx, g)
	}
	if name := c.opts.ScriptConfigMap; name.Name != "" && len(s.gateways) > 0 {
		o.scripts.Name = name.String()
		on := target{verb: "get", resource: "configmaps", namespace: name.Namespace, name: name.Name}
		o.read(ctx, on, func(ctx context.Context) error { return o.readScripts(ctx, on, name) })
	}
}

func (o *observation) readEndpoints(ctx context.Context, service string) {
	selector := labels.Set{discoveryv1.LabelServiceName: service}.String()
	o.read(ctx, o.target("list", discoveryv1.GroupName, "endpointslices", service), func(ctx context.Context) error {
		list, err := o.client.endpoints.EndpointSlices(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			o.snapshot.endpointSlices = list.Items
		}
		return err
	})
}

func (o *observation) readScripts(ctx context.Context, on target, name types.NamespacedName) error {
	cm, err := found(o.client.core.ConfigMaps(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if IsForbidden(err) { // it is in doubt how any gateway object is rendered, and nothing else
		for _, g := range o.snapshot.gateways {
			p := forbidden(on, err)
			p.Route = g.ref
			o.problem(p)
		}
		return nil
	}
	if cm != nil {
		o.scripts.Data, o.scripts.Override = cm.Data, cm.Annotations[api.AnnotationOverride] == "true"
	}
	return err
}

// sentence makes an error the beginning of what users read.
func sentence(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/kube/apiclient"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
)

// This file assigns numbers to objects of a class, such as the order of Ingresses behind one load balancer. No two
// objects get the same number, even if executors ask at the same time. A ConfigMap for each class, written with a
// precondition, has the owner of each number. The numbers that objects already bear count as well.

const (
	// numbersPrefix is the prefix of the names of the ConfigMaps in the namespace of Sluice.
	numbersPrefix = "sluice-orders-"
	// unusedNumberTTL is how long a number stays taken while its object does not exist. An executor took it and did not
	// create the object.
	unusedNumberTTL = 10 * time.Minute
)

// numberHolder is the object that has a number.
type numberHolder struct {
	Object string    `json:"object"` // namespace/name
	Since  time.Time `json:"since"`
}

// contentionBackoff returns a backoff for many executors that want a number at the same time.
func contentionBackoff() wait.Backoff {
	return wait.Backoff{Steps: 40, Duration: 5 * time.Millisecond, Factor: 1.2, Jitter: 1, Cap: 500 * time.Millisecond}
}

// assignNumbers gives each object that needs a number one. It begins with the last object, because an object that comes
// before others has a smaller number.
func (c *Client) assignNumbers(ctx context.Context, g *gateway, a rollout.Action, all []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	numbered := make([]*unstructured.Unstructured, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		numbered[i] = all[i]
		annotation, within := traffic.NumberNeeded(all[i])
		if annotation == "" {
			continue
		}
		if i+1 < len(all) {
			if next, err := strconv.Atoi(numbered[i+1].GetAnnotations()[annotation]); err == nil {
				within.Max = min(within.Max, next-1)
			}
		}
		n, err := c.takeNumber(ctx, g, a, all[i], annotation, within)
		if err != nil {
			return nil, err
		}
		numbered[i] = traffic.WithNumber(all[i], annotation, n)
	}
	return numbered, nil
}

// takeNumber takes the greatest free number in a range. The object then comes directly before the object that it
// belongs to, and after all objects that precede that one.
func (c *Client) takeNumber(ctx context.Context, g *gateway, a rollout.Action, u *unstructured.Unstructured, annotation string, within traffic.Range) (int, error) {
	class := ingressClassOf(u)
	gvr, _, err := c.childResource(ctx, g, u)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", a, err)
	}
	var number int
	object := g.access.Namespace + "/" + u.GetName()
	err = c.changeNumbers(ctx, g, a, class, true, func(held map[int]numberHolder) (bool, error) {
		borne, there, err := c.borneNumbers(ctx, g, a, gvr, class, annotation)
		if err != nil {
			return false, err
		}
		maps.DeleteFunc(held, func(_ int, h numberHolder) bool {
			return h.Object == object || !there[h.Object] && time.Since(h.Since) > unusedNumberTTL
		})
		for number = within.Max; number >= within.Min; number-- {
			if _, taken := held[number]; !taken && !borne[number] {
				held[number] = numberHolder{object, time.Now().UTC().Truncate(time.Second)}
				return true, nil
			}
		}
		return false, refusedRoute(a, g.ref, fmt.Errorf(
			"none of the numbers %d to %d is free for %s %s, which must come before %s; give %s a higher one by its annotation %s",
			within.Min, within.Max, u.GetKind(), u.GetName(), g.ref.Name, g.ref, annotation))
	})
	return number, err
}

// borneNumbers returns the numbers that the objects of a class bear, and which objects of any class exist.
func (c *Client) borneNumbers(ctx context.Context, g *gateway, a rollout.Action, gvr schema.GroupVersionResource, class, annotation string) (borne map[int]bool, there map[string]bool, err error) {
	list, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return c.objects.Resource(gvr).List(ctx, metav1.ListOptions{})
	})
	if err != nil {
		return nil, nil, apiclient.ActionError(a, apiclient.Access{Verb: "list", Group: gvr.Group, Resource: gvr.Resource, Route: g.ref}, err)
	}
	borne, there = map[int]bool{}, map[string]bool{}
	for i := range list.Items {
		u := &list.Items[i]
		there[u.GetNamespace()+"/"+u.GetName()] = true
		if ingressClassOf(u) != class {
			continue
		}
		if n, err := strconv.Atoi(u.GetAnnotations()[annotation]); err == nil {
			borne[n] = true
		} else {
			borne[g.orders.Default] = true
		}
	}
	return borne, there, nil
}

// freeNumbers frees the numbers of objects.
func (c *Client) freeNumbers(ctx context.Context, g *gateway, a rollout.Action, all []*unstructured.Unstructured) error {
	if g.orders == nil {
		return nil
	}
	for _, u := range all {
		err := c.changeNumbers(ctx, g, a, ingressClassOf(u), false, func(held map[int]numberHolder) (bool, error) {
			before := len(held)
			maps.DeleteFunc(held, func(_ int, h numberHolder) bool { return h.Object == g.access.Namespace+"/"+u.GetName() })
			return len(held) < before, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changeNumbers changes the holders of the numbers of a class. It retries after each conflict. change reports whether
// it changed anything.
func (c *Client) changeNumbers(ctx context.Context, g *gateway, a rollout.Action, class string, create bool, change func(map[int]numberHolder) (bool, error)) error {
	namespace := c.opts.Installation.Namespace
	client := c.core.ConfigMaps(namespace)
	name := numbersPrefix + class
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(contentionBackoff(), again, func() error {
		cm, err := apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return nilIfNotFound(client.Get(ctx, name, metav1.GetOptions{}))
		})
		if err != nil {
			return err
		}
		exists := cm != nil
		if !exists {
			if !create {
				return nil
			}
			cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		}
		held := decodeNumbers(cm)
		changed, err := change(held)
		if err != nil || !changed {
			return err
		}
		next := cm.DeepCopy()
		if next.Data, err = encodeNumbers(held); err != nil {
			return err
		}
		_, err = apiclient.WithDeadline(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
			if !exists {
				return client.Create(ctx, next, metav1.CreateOptions{FieldManager: api.FieldManager})
			}
			return client.Update(ctx, next, metav1.UpdateOptions{FieldManager: api.FieldManager})
		})
		return err
	})
	if _, ok := apiclient.ProblemOf(err); ok || err == nil {
		return err
	}
	if apiclient.IsNotFound(err) {
		return refusedRoute(a, g.ref, fmt.Errorf("the numbers of class %s are kept in namespace %s, which does not exist; create it: kubectl create namespace %s", class, namespace, namespace))
	}
	return apiclient.ActionError(a, apiclient.Access{Verb: "update", Resource: "configmaps", Namespace: namespace, Name: name}, err)
}

// decodeNumbers reads the holder of each number. It ignores entries that it cannot decode.
func decodeNumbers(cm *corev1.ConfigMap) map[int]numberHolder {
	held := map[int]numberHolder{}
	for key, text := range cm.Data {
		var h numberHolder
		if n, err := strconv.Atoi(key); err == nil && json.Unmarshal([]byte(text), &h) == nil {
			held[n] = h
		}
	}
	return held
}

func encodeNumbers(held map[int]numberHolder) (map[string]string, error) {
	data := map[string]string{}
	for n, h := range held {
		text, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		data[strconv.Itoa(n)] = string(text)
	}
	return data, nil
}

// ingressClassOf returns the class of an Ingress, from its spec or from its annotation. Objects without a class share
// one.
func ingressClassOf(u *unstructured.Unstructured) string {
	return cmp.Or(traffic.IngressClassOf(u), "default")
}

package main

import (
	"context"
	"fmt"
	"time"

	appsv1alpha1 "github.com/openkruise/kruise/apis/apps/v1alpha1"
	appsv1beta1 "github.com/openkruise/kruise/apis/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// probes returns one object of each kind without the fields that admission adds.
func probes() []client.Object {
	meta := metav1.ObjectMeta{Name: "sluice-kruise-probe", Namespace: metav1.NamespaceDefault}
	labels := map[string]string{"app": meta.Name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}, RestartPolicy: corev1.RestartPolicyAlways},
	}
	return []client.Object{
		&appsv1alpha1.CloneSet{ObjectMeta: meta, Spec: appsv1alpha1.CloneSetSpec{Selector: selector, Template: template}},
		&appsv1beta1.StatefulSet{ObjectMeta: meta, Spec: appsv1beta1.StatefulSetSpec{Selector: selector, Template: template}},
		&appsv1alpha1.DaemonSet{ObjectMeta: meta, Spec: appsv1alpha1.DaemonSetSpec{Selector: selector, Template: template}},
	}
}

// defaulted reports whether the API server adds the fields that the controllers require. It stores nothing.
func defaulted(ctx context.Context, c client.Client, probe client.Object) bool {
	if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
		return false
	}
	probe.SetResourceVersion("")
	probe.SetUID("")
	switch object := probe.(type) {
	case *appsv1alpha1.CloneSet:
		return object.Spec.RevisionHistoryLimit != nil
	case *appsv1beta1.StatefulSet:
		return object.Spec.RevisionHistoryLimit != nil
	case *appsv1alpha1.DaemonSet:
		return object.Spec.RevisionHistoryLimit != nil
	}
	return false
}

func until(ctx context.Context, what string, done func(context.Context) bool) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}

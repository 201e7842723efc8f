package world

import (
	"context"
	"fmt"
)

const scaledObjectCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  names: {kind: ScaledObject, listKind: ScaledObjectList, plural: scaledobjects, singular: scaledobject}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// ServeScaledObjects makes the API server serve the kind of KEDA's autoscalers, without KEDA. Tests may call it at the
// same time: a server-side apply does not fail if another one has just created the object.
func (w *World) ServeScaledObjects(ctx context.Context) error {
	if _, err := w.KubectlStdin(ctx, scaledObjectCRD, "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("install the definition of KEDA's ScaledObject: %w", err)
	}
	if _, err := w.Kubectl(ctx, "wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=600s"); err != nil {
		return fmt.Errorf("wait until ScaledObjects are served: %w", err)
	}
	return nil
}

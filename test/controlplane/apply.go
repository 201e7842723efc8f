package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply runs `kubectl apply -n namespace -f -` as the administrator, without -n if the namespace is "". It sends the
// requests that kubectl sends to create an object. It calls kubectl if a manifest needs another request. Without
// --openapi-patch=false, kubectl would then read the schemas of all kinds each time.
func (c *Cluster) Apply(ctx context.Context, namespace, manifests string) error {
	if c.create(ctx, namespace, manifests) == nil {
		if strings.Contains(manifests, rbacv1.GroupName) {
			return c.rbac.inForce(ctx, c)
		}
		return nil
	}
	args := []string{"apply", "--openapi-patch=false", "-f", "-"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	_, err := c.KubectlStdin(ctx, manifests, args...)
	return err
}

// create creates the objects, as the first kubectl apply does.
func (c *Cluster) create(ctx context.Context, namespace, manifests string) error {
	mapper, err := c.kinds.mapper(c)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096); ; {
		u := &unstructured.Unstructured{}
		err := documents.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if u.Object == nil {
			continue // a document with comments only
		}
		mapping, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		var objects dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			own := cmp.Or(u.GetNamespace(), namespace, metav1.NamespaceDefault)
			if namespace != "" && own != namespace {
				return fmt.Errorf("%s is of namespace %s", u.GetName(), own)
			}
			u.SetNamespace(own)
			objects = client.Resource(mapping.Resource).Namespace(own)
		}
		if err := remember(u); err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldManager: "kubectl-client-side-apply", FieldValidation: metav1.FieldValidationStrict}
		if _, err := objects.Create(ctx, u, options); err != nil {
			return err
		}
	}
}

// remember stores a manifest's content in an annotation of the manifest, for the next kubectl apply.
func remember(u *unstructured.Unstructured) error {
	annotations := maps.Clone(u.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	if err := unstructured.SetNestedStringMap(u.Object, annotations, "metadata", "annotations"); err != nil {
		return err
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(text)
	u.SetAnnotations(annotations)
	return nil
}

// kinds has the kinds that the API server serves, as far as discovery has read them. The zero value is ready.
type kinds struct {
	mu     sync.Mutex
	mapped meta.RESTMapper
}

// mapper returns one mapper for all callers of Apply. It repeats discovery for an unknown kind.
func (k *kinds) mapper(c *Cluster) (meta.RESTMapper, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mapped == nil {
		client, err := discovery.NewDiscoveryClientForConfig(c.Config)
		if err != nil {
			return nil, err
		}
		k.mapped = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	}
	return k.mapped, nil
}

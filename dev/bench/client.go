package main

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// client sends requests to the API server. It decodes only the needed part of an answer, because the driver takes CPU from the other processes on a machine
// with two cores.
type client struct {
	// typed uses protobuf, and raw uses JSON.
	typed kubernetes.Interface
	raw   rest.Interface
}

const (
	// userAgent identifies the requests that deploy and approve.
	userAgent = "sluice-bench"
	// writerAgent identifies the writes of a controller when none runs.
	writerAgent = "sluice-floor"
)

func newClient(config *rest.Config, agent string) (*client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, agent
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	typed, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &client{typed: typed, raw: plain.CoreV1().RESTClient()}, nil
}

// Paths of the resources that the bench handles.
const (
	rolloutsPath    = "/apis/rollouts.kruise.io/v1beta1"
	deploymentsPath = "/apis/apps/v1"

	templatesPath = "/apis/sluice.dev/v1alpha1"

	virtualServicesPath = "/apis/networking.istio.io/v1beta1"
)

func collection(group, namespace, resource string) string {
	if namespace == "" {
		return group + "/" + resource
	}
	return group + "/namespaces/" + namespace + "/" + resource
}

// create posts an object, given as JSON, to a collection.
func (c *client) create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	err = patiently(ctx, func(again bool) error {
		_, err := c.raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
		if again && apierrors.IsAlreadyExists(err) {
			return nil // an attempt without an answer has created it
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create in %s: %w", path, err)
	}
	return nil
}

// patch sends a patch and returns the resource version of its result.
func (c *client) patch(ctx context.Context, kind types.PatchType, path, body string) (uint64, error) {
	raw, err := c.raw.Patch(kind).AbsPath(path).Body([]byte(body)).DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("patch %s: %w", path, err)
	}
	var answer view
	if err := json.Unmarshal(raw, &answer); err != nil {
		return 0, fmt.Errorf("patch %s: read the answer: %w", path, err)
	}
	return answer.version(), nil
}

// put replaces an object and returns the result.
func (c *client) put(ctx context.Context, path string, object any) (view, error) {
	var answer view
	body, err := json.Marshal(object)
	if err != nil {
		return answer, err
	}
	raw, err := c.raw.Put().AbsPath(path).SetHeader("Content-Type", "application/json").Param("fieldManager", api.FieldManager).Body(body).DoRaw(ctx)
	if err != nil {
		return answer, fmt.Errorf("replace %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("replace %s: read the answer: %w", path, err)
	}
	return answer, nil
}

// setStatus replaces the status of an object that no other client writes.
func (c *client) setStatus(ctx context.Context, path string, status object) error {
	raw, err := c.raw.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var whole object
	if err := json.Unmarshal(raw, &whole); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	whole["status"] = status
	return patiently(ctx, func(again bool) error {
		_, err := c.put(ctx, path+"/status", whole)
		if again && apierrors.IsConflict(err) {
			return nil // an attempt without an answer has written it
		}
		return err
	})
}

// list reads all objects of a collection that have a label, by namespace and name.
func (c *client) list(ctx context.Context, path, selector string) (map[string]view, error) {
	raw, err := c.raw.Get().AbsPath(path).Param("labelSelector", selector).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	var answer struct{ Items []view }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	found := map[string]view{}
	for _, v := range answer.Items {
		found[v.key()] = v
	}
	return found, nil
}

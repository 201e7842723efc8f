package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// client talks to the API server as the one who deploys and approves. It decodes no more of an answer than is needed: what the
// driver spends is missing elsewhere on a machine with two cores.
type client struct {
	typed kubernetes.Interface
	raw   rest.Interface
}

const userAgent = "sluice-bench"

func newClient(config *rest.Config) (*client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, userAgent
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &client{typed: typed, raw: typed.CoreV1().RESTClient()}, nil
}

// Paths of the resources that the bench handles.
const (
	rolloutsPath    = "/apis/rollouts.kruise.io/v1beta1"
	deploymentsPath = "/apis/apps/v1"
)

func collection(group, namespace, resource string) string {
	if namespace == "" {
		return group + "/" + resource
	}
	return group + "/namespaces/" + namespace + "/" + resource
}

// attempts is how often an object is sent to a server that is too busy to answer in time.
const attempts = 5

// create posts an object, given as JSON, to a collection.
func (c *client) create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	for i := range attempts {
		_, err = c.raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
		if i > 0 && apierrors.IsAlreadyExists(err) {
			return nil // an attempt without an answer has made it
		}
		if !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("create in %s: %w", path, err)
	}
	return nil
}

// patch sends a patch and returns the resource version that it led to.
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

// change is one event of a watch.
type change struct {
	Type   string
	Object view
}

// watch tells of all objects of a collection with a label, and of their changes, until ctx ends. A watch that the server ends is
// begun again, and then tells of all objects again.
func (c *client) watch(ctx context.Context, path, selector string, tell func(change)) error {
	for ctx.Err() == nil {
		stream, err := c.raw.Get().AbsPath(path).Param("watch", "true").Param("labelSelector", selector).SetHeader("Accept", "application/json").Stream(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", path, err)
		}
		err = tellAll(stream, tell)
		_ = stream.Close()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
	return nil
}

func tellAll(stream io.Reader, tell func(change)) error {
	for decoder := json.NewDecoder(stream); ; {
		var next change
		if err := decoder.Decode(&next); err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		} else if err != nil {
			return err
		}
		if next.Type == "ERROR" {
			return fmt.Errorf("the server says %s", http.StatusText(http.StatusGone))
		}
		tell(next)
	}
}

package simulate

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// cluster is a real cluster. The simulation reads from it and writes nothing to it.
type cluster struct {
	client *http.Client
	base   *url.URL
}

func newCluster(config *rest.Config) (*cluster, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &cluster{client: client, base: base}, nil
}

// getObject reads the object of a request from the cluster, also for a request that writes.
func (c *cluster) getObject(r *http.Request) (map[string]any, error) {
	at := *c.base
	at.Path = strings.TrimSuffix(at.Path, "/") + strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodGet {
		at.RawQuery = r.URL.RawQuery
	}
	asked, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Accept", "application/json")
	response, err := c.client.Do(asked)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		status := metav1.Status{}
		if json.Unmarshal(text, &status) != nil || status.Kind != "Status" {
			status = metav1.Status{Status: metav1.StatusFailure, Code: int32(response.StatusCode), Message: strings.TrimSpace(string(text))}
		}
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", at.Path, err)
	}
	return body, nil
}

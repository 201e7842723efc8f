package crash

import (
	"net/http"
	"slices"
	"strings"
)

// resources are those that belong to a namespace and that parts of Sluice may list in all of them.
func resources() []string {
	return []string{"deployments", "daemonsets", "statefulsets", "clonesets", "replicasets", "pods", "services", "endpointslices", "virtualservices", "destinationrules", "ingresses", "rollouts", "controllerrevisions", "analysistemplates"}
}

// scoped narrows a request for the objects of all namespaces to those of one: each run has a watcher and executors of its own, and
// they do not see those of other runs. The watcher sees one definition of Istio's only.
func scoped(r *http.Request, namespace, definition string) *http.Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := len(parts) - 1
	if parts[last] == "customresourcedefinitions" {
		narrow := r.Clone(r.Context())
		query := narrow.URL.Query()
		query.Set("fieldSelector", "metadata.name="+definition+".networking.istio.io") // the others are large, and hundreds of watchers list them
		narrow.URL.RawQuery = query.Encode()
		return narrow
	}
	core := last == 2 && parts[0] == "api"
	if !core && !(last == 3 && parts[0] == "apis") || !slices.Contains(resources(), parts[last]) {
		return r
	}
	narrow := r.Clone(r.Context())
	narrow.URL.Path = "/" + strings.Join(parts[:last], "/") + "/namespaces/" + namespace + "/" + parts[last]
	return narrow
}

// resourceOf is the resource that a path ends in, for lists and watches.
func resourceOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// kindOf names a write by verb and object, in words that are the same in each run: pods and Events have names that are not.
func kindOf(r *http.Request, namespace string) string {
	_, object, _ := strings.Cut(r.URL.Path, "/namespaces/"+namespace+"/")
	for _, resource := range []string{"pods", "events"} {
		if strings.HasPrefix(object, resource+"/") {
			object = resource
		}
	}
	if r.URL.Query().Get("dryRun") != "" {
		object += " (dry run)"
	}
	return r.Method + " " + object
}

// pilot is the watcher's way to the API server.
type pilot struct {
	*journal
	namespace string
	// definition is the resource of Istio's whose definition the watcher sees.
	definition string
	next       http.RoundTripper
}

// WrappedRoundTripper lets client-go find the way to cancel a request.
func (p *pilot) WrappedRoundTripper() http.RoundTripper { return p.next }

func (p *pilot) RoundTrip(r *http.Request) (*http.Response, error) {
	r = scoped(r, p.namespace, p.definition)
	response, err := p.next.RoundTrip(r)
	return framed(p.journal, "watcher", r, response), err
}

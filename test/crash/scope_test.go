package crash

import (
	"net/http"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// resources returns the namespaced resources that components of Sluice may list in all namespaces.
func resources() []string {
	return []string{"deployments", "daemonsets", "statefulsets", "clonesets", "replicasets", "pods", "services", "endpointslices", "virtualservices", "destinationrules", "ingresses", "rollouts", "controllerrevisions", "analysistemplates", "fleetrollouts", "fleettargets"}
}

// scoped narrows a request for the objects of all namespaces to one namespace. Each run has its own watcher and
// executors. They do not see the objects of other runs. The watcher sees only one definition of Istio's.
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
	if parts[last] == "fleetmembers" {
		narrow := r.Clone(r.Context())
		query := narrow.URL.Query()
		query.Set("labelSelector", labelRun+"="+namespace)
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

// resourceOf returns the resource at the end of a path, for lists and watches.
func resourceOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// labelRun marks the FleetMembers of a run, which are in no namespace, with the namespace of the run.
const labelRun = "run"

// concerns reports whether a write is about the objects of a run.
func concerns(r *http.Request, namespace string) bool {
	return strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/") || strings.Contains(r.URL.Path, "/fleetmembers/")
}

// kindOf names a write by verb and object, with the same words in each run: names of pods, Events and FleetMembers differ
// between runs.
func kindOf(r *http.Request, namespace string) string {
	_, object, is := strings.Cut(r.URL.Path, "/namespaces/"+namespace+"/")
	if !is {
		_, object, _ = strings.Cut(r.URL.Path, api.GroupSluice+"/"+api.FleetGroupVersion().Version+"/")
	}
	object = strings.ReplaceAll(object, "-"+namespace, "")
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

// pilot is the watcher's transport to the API server.
type pilot struct {
	*journal
	namespace string
	// definition is the resource of Istio whose definition the watcher sees.
	definition string
	next       http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport that can cancel a request.
func (p *pilot) WrappedRoundTripper() http.RoundTripper { return p.next }

func (p *pilot) RoundTrip(r *http.Request) (*http.Response, error) {
	r = scoped(r, p.namespace, p.definition)
	response, err := p.next.RoundTrip(r)
	return framed(p.journal, "watcher", r, response), err
}

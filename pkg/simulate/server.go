package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// server answers API requests from a store, without a network.
type server struct {
	store *store
	// beyond is the cluster for objects that the store does not know; nil without a cluster.
	beyond *cluster
	listed map[string]bool // lists that were read from beyond
}

// request is one API request.
type request struct {
	key
	version     string
	subresource string
	query       url.Values
	accept      string
	kind        types.PatchType
	body        []byte
}

// RoundTrip answers a request from the store.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close() // a RoundTripper must close it; the body is read completely
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	answer, err := s.answerRequest(r, body)
	code := http.StatusOK
	if err != nil {
		status := apierrors.APIStatus(nil)
		if !asStatus(err, &status) {
			return nil, err
		}
		said := status.Status()
		said.Kind, said.APIVersion = "Status", "v1"
		answer, code = said, int(said.Code)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}, nil
}

func asStatus(err error, into *apierrors.APIStatus) bool {
	status, ok := err.(apierrors.APIStatus)
	*into = status
	return ok
}

func (s *server) answerRequest(r *http.Request, body []byte) (any, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	q := request{query: r.URL.Query(), accept: r.Header.Get("Accept"), kind: types.PatchType(r.Header.Get("Content-Type")), body: body}
	switch {
	case len(parts) == 1 && parts[0] == "apis":
		return s.listGroups(r)
	case parts[0] == "api" && len(parts) >= 2:
		q.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		q.Group, q.version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, fmt.Errorf("%s %s is no request that a rehearsal makes", r.Method, r.URL.Path)
	}
	if len(parts) == 0 {
		return s.listResources(r, schema.GroupVersion{Group: q.Group, Version: q.version})
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = parts[2]
	}
	switch r.Method {
	case http.MethodGet:
		if q.name == "" {
			return s.listObjects(r, q)
		}
		return s.getObject(r, q)
	case http.MethodPost:
		return s.createObject(q)
	case http.MethodPut:
		return s.replaceObject(r, q)
	case http.MethodPatch:
		return s.patchObject(r, q)
	case http.MethodDelete:
		return s.deleteObject(r, q)
	}
	return nil, fmt.Errorf("%s %s is no request that a rehearsal makes", r.Method, r.URL.Path)
}

// listGroups returns the API groups: of the cluster if there is one, otherwise of the store.
func (s *server) listGroups(r *http.Request) (any, error) {
	if s.beyond != nil {
		return s.beyond.getObject(r)
	}
	versions := map[string][]metav1.GroupVersionForDiscovery{}
	for kind := range s.store.kinds {
		served := metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}
		if kind.Group != "" && !slices.Contains(versions[kind.Group], served) {
			versions[kind.Group] = append(versions[kind.Group], served)
		}
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: name, Versions: versions[name], PreferredVersion: versions[name][0]})
	}
	return list, nil
}

// listResources returns the resources of a group version.
func (s *server) listResources(r *http.Request, of schema.GroupVersion) (any, error) {
	if s.beyond != nil {
		return s.beyond.getObject(r)
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: of.String()}
	for kind, resource := range s.store.kinds {
		if kind.GroupVersion() == of {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource, Kind: kind.Kind, Namespaced: true})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: of.Group}, of.Version)
	}
	return list, nil
}

// findObject returns an object from the store or from the cluster.
func (s *server) findObject(r *http.Request, q request) (*unstructured.Unstructured, error) {
	if s.store.objects[q.key] == nil && !s.store.gone[q.key] && s.beyond != nil {
		body, err := s.beyond.getObject(r)
		if err != nil {
			return nil, err
		}
		s.store.loadObject(q.key, &unstructured.Unstructured{Object: body})
	}
	if o := s.store.objects[q.key]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(q.GroupResource, q.name)
}

func (s *server) getObject(r *http.Request, q request) (any, error) {
	if s.beyond == nil && q.Group == "admissionregistration.k8s.io" {
		return map[string]any{"metadata": map[string]any{"name": q.name}}, nil // as in a cluster with Sluice installed
	}
	o, err := s.findObject(r, q)
	if s.beyond == nil && q.Resource == "secrets" && apierrors.IsNotFound(err) { // manifests seldom contain Secrets
		return nil, apierrors.NewForbidden(q.GroupResource, q.name, errors.New("the manifests do not have it"))
	}
	if err != nil {
		return nil, err
	}
	return q.viewOf(o), nil
}

// viewOf returns an object in the requested version, complete or only its metadata.
func (q request) viewOf(o *unstructured.Unstructured) map[string]any {
	seen := o.DeepCopy()
	seen.SetAPIVersion(schema.GroupVersion{Group: q.Group, Version: q.version}.String())
	if !strings.Contains(q.accept, "as=PartialObjectMetadata") {
		return seen.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": seen.Object["metadata"]}
}

func (s *server) listObjects(r *http.Request, q request) (any, error) {
	if err := s.listBeyond(r, q); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items, kind := []any{}, "List"
	for _, k := range s.store.listKeys(q.GroupResource, q.namespace) {
		o := s.store.objects[k]
		if selector.Matches(labels.Set(o.GetLabels())) {
			items, kind = append(items, q.viewOf(o)), o.GetKind()+"List"
		}
	}
	version := schema.GroupVersion{Group: q.Group, Version: q.version}.String()
	if strings.Contains(q.accept, "as=PartialObjectMetadata") {
		version, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	} else if kind == "List" {
		kind = listKind(schema.GroupVersion{Group: q.Group, Version: q.version}, q.Resource)
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.store.version)}, "items": items}, nil
}

// listKind returns the kind of an empty list. Clients of built-in types require it; other clients accept any kind.
func listKind(version schema.GroupVersion, resource string) string {
	for kind := range scheme.Scheme.KnownTypes(version) {
		if item, ok := strings.CutSuffix(kind, "List"); ok && strings.EqualFold(item+"s", resource) {
			return kind
		}
	}
	return "List"
}

func (s *server) listBeyond(r *http.Request, q request) error {
	id := fmt.Sprint(q.key, q.query.Get("labelSelector"))
	if s.beyond == nil || s.listed[id] {
		return nil
	}
	body, err := s.beyond.getObject(r)
	if err != nil {
		return err
	}
	kind, _ := body["kind"].(string)
	items, _ := body["items"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		o := &unstructured.Unstructured{Object: fields}
		o.SetAPIVersion(schema.GroupVersion{Group: q.Group, Version: q.version}.String())
		if o.GetKind() == "" {
			o.SetKind(strings.TrimSuffix(kind, "List"))
		}
		s.store.loadObject(key{q.GroupResource, o.GetNamespace(), o.GetName()}, o)
	}
	s.listed[id] = true
	return nil
}

func (q request) dryRun() bool { return slices.Contains(q.query["dryRun"], metav1.DryRunAll) }

func (s *server) createObject(q request) (any, error) {
	o, err := decodeObject(q.body)
	if err != nil {
		return nil, err
	}
	q.name = o.GetName()
	o.SetNamespace(q.namespace)
	if s.store.objects[q.key] != nil {
		return nil, apierrors.NewAlreadyExists(q.GroupResource, q.name)
	}
	if q.dryRun() {
		return q.viewOf(o), nil
	}
	delete(o.Object, "status")
	return q.viewOf(s.store.createObject(q.key, o)), nil
}

func (s *server) replaceObject(r *http.Request, q request) (any, error) {
	was, err := s.findObject(r, q)
	if err != nil {
		return nil, err
	}
	next, err := decodeObject(q.body)
	if err != nil {
		return nil, err
	}
	if v := next.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(q.GroupResource, q.name, fmt.Errorf("it is not as it was seen"))
	}
	return s.writeObject(q, was, next)
}

// writeObject replaces was by next, limited to the part that the request may change.
func (s *server) writeObject(q request, was, next *unstructured.Unstructured) (any, error) {
	if q.subresource == "status" {
		whole := was.DeepCopy()
		whole.Object["status"] = next.Object["status"]
		next = whole
	} else if status, ok := was.Object["status"]; ok {
		next.Object["status"] = status
	} else {
		delete(next.Object, "status")
	}
	next.SetAPIVersion(was.GetAPIVersion())
	if q.dryRun() {
		return q.viewOf(next), nil
	}
	return q.viewOf(s.store.updateObject(q.key, next)), nil
}

func (s *server) patchObject(r *http.Request, q request) (any, error) {
	was, err := s.findObject(r, q)
	if err != nil {
		return nil, err
	}
	next, err := applyPatch(was, q.kind, q.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if next.GetResourceVersion() != was.GetResourceVersion() || next.GetUID() != was.GetUID() {
		return nil, apierrors.NewConflict(q.GroupResource, q.name, fmt.Errorf("it is not as it was seen"))
	}
	return s.writeObject(q, was, next)
}

func applyPatch(was *unstructured.Unstructured, kind types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	body, err := was.MarshalJSON()
	if err != nil {
		return nil, err
	}
	switch kind {
	case types.MergePatchType:
		body, err = jsonpatch.MergePatch(body, patch)
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			body, err = operations.Apply(body)
		}
	default:
		err = fmt.Errorf("a rehearsal knows no patch of the type %s", kind)
	}
	if err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	return next, next.UnmarshalJSON(body)
}

func (s *server) deleteObject(r *http.Request, q request) (any, error) {
	o, err := s.findObject(r, q)
	if err != nil {
		return nil, err
	}
	options := metav1.DeleteOptions{}
	if len(q.body) > 0 {
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDecoder(), q.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != o.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion()) {
		return nil, apierrors.NewConflict(q.GroupResource, q.name, fmt.Errorf("it is not as it was seen"))
	}
	next := o.DeepCopy()
	if p := options.PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground {
		next.SetFinalizers(append(next.GetFinalizers(), metav1.FinalizerDeleteDependents))
	}
	now := metav1.NewTime(s.store.now())
	next.SetDeletionTimestamp(&now)
	s.store.updateObject(q.key, next)
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, nil
}

// decodeObject decodes an object in any encoding that a client sends.
func decodeObject(body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		if err := o.UnmarshalJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return o, nil
	}
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.SetGroupVersionKind(*kind)
	return o, nil
}

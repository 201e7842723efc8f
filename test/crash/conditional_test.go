package crash

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// lawful records breaches of two laws by a request before it is sent:
//
//   - EveryWriteIsConditional: an update, a patch or a delete names the resource version of its object; for a pod, the
//     UID is enough. A created object has a fixed name. Events need no precondition.
//   - GraceSpentBeforeRemoval: no canary is deleted sooner than the grace period after the last write to a route.
//     Single pods are deleted for replacement, which needs no grace.
func (m *mortal) lawful(r *http.Request, kind string, body []byte) {
	if strings.Contains(kind, "events") {
		return
	}
	uid, version, name := conditions(r, body)
	switch {
	case r.Method == http.MethodPost && name == "":
		m.breach("EveryWriteIsConditional: %s leaves the name to the API server", kind)
	case r.Method == http.MethodPost:
	case strings.Contains(kind, " pods") && uid == "", !strings.Contains(kind, " pods") && version == "":
		m.breach("EveryWriteIsConditional: %s does not say what it is about (uid %q, version %q)", kind, uid, version)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch early := graceSeconds*time.Second - time.Since(m.routed); {
	case strings.HasPrefix(kind, "PUT virtualservices"), strings.Contains(kind, " ingresses"):
		m.routed = time.Now()
	case r.Method == http.MethodDelete && early > 0 && !strings.Contains(kind, " pods"):
		m.breaches = append(m.breaches, "GraceSpentBeforeRemoval: "+kind+" came too early by "+early.String())
	}
}

// conditions returns the preconditions in the body of a request, and the name that it sets.
func conditions(r *http.Request, body []byte) (uid, version, name string) {
	if strings.HasPrefix(string(body), "k8s\x00") {
		return decoded(body)
	}
	var operations []struct{ Path, Value any }
	if json.Unmarshal(body, &operations) == nil { // a JSON patch
		for _, o := range operations {
			if o.Path == "/metadata/resourceVersion" {
				version, _ = o.Value.(string)
			}
		}
		return "", version, ""
	}
	var b struct {
		Metadata      struct{ UID, ResourceVersion, Name string }
		Preconditions struct{ UID, ResourceVersion string }
	}
	if json.Unmarshal(body, &b) != nil {
		return "", "", ""
	}
	if r.Method == http.MethodDelete {
		return b.Preconditions.UID, b.Preconditions.ResourceVersion, ""
	}
	return b.Metadata.UID, b.Metadata.ResourceVersion, b.Metadata.Name
}

// decoded does the same for a body in protobuf.
func decoded(body []byte) (uid, version, name string) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return "", "", ""
	}
	if options, ok := object.(*metav1.DeleteOptions); ok {
		return precondition(options.Preconditions)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", "", ""
	}
	metadata, _ := fields["metadata"].(map[string]any)
	text := func(key string) string { s, _ := metadata[key].(string); return s }
	return text("uid"), text("resourceVersion"), text("name")
}

func precondition(p *metav1.Preconditions) (uid, version, name string) {
	if p != nil && p.UID != nil {
		uid = string(*p.UID)
	}
	if p != nil && p.ResourceVersion != nil {
		version = *p.ResourceVersion
	}
	return uid, version, ""
}

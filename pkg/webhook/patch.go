package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON writes the value of every operation except a removal, even a value of false or zero.
func (o operation) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"op": o.Op, "path": o.Path}
	if o.Op != "remove" {
		fields["value"] = o.Value
	}
	return json.Marshal(fields)
}

// diffObjects appends the operations that turn the first object into the second. It replaces lists as a whole.
func diffObjects(path string, from, to map[string]any, patch []operation) []operation {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, is := to[key]; !is {
			patch = append(patch, operation{Op: "remove", Path: path + "/" + escapePointer(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		value, at := to[key], path+"/"+escapePointer(key)
		before, was := from[key]
		if was && equality.Semantic.DeepEqual(before, value) {
			continue
		}
		old, isObject := before.(map[string]any)
		if object, is := value.(map[string]any); is && isObject {
			patch = diffObjects(at, old, object, patch)
			continue
		}
		patch = append(patch, operation{Op: "add", Path: at, Value: value})
	}
	return patch
}

func escapePointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

const managers = "/metadata/managedFields"

// withRawManagers restores the managers byte by byte. The API server counts an update as a change even if only the order of keys differs.
func withRawManagers(patch []operation, old []byte) ([]operation, error) {
	for i := range patch {
		if patch[i].Path != managers {
			continue
		}
		var raw struct {
			Metadata struct {
				ManagedFields json.RawMessage `json:"managedFields"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(old, &raw); err != nil {
			return nil, fmt.Errorf("read managers of old object: %w", err)
		}
		patch[i].Value = raw.Metadata.ManagedFields
	}
	return patch, nil
}

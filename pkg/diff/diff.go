// Package diff shows how an object differs from another one, as a unified diff of their YAML. It knows nothing of what the objects
// are. Its one invariant: objects that are equal as JSON differ in no line.
package diff

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// CompareObjects is the unified diff of two objects under the names that they have in its head, nil when they are equal. A nil object is one that does
// not exist.
func CompareObjects(beforeName string, before map[string]any, afterName string, after map[string]any) ([]string, error) {
	old, err := objectYAML(before)
	if err != nil {
		return nil, fmt.Errorf("write %s as yaml: %w", beforeName, err)
	}
	fresh, err := objectYAML(after)
	if err != nil {
		return nil, fmt.Errorf("write %s as yaml: %w", afterName, err)
	}
	all := string(diff.Diff(beforeName, old, afterName, fresh))
	if all == "" {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	return lines[1:], nil // without the command line that the package begins with
}

func objectYAML(object map[string]any) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return yaml.Marshal(object)
}

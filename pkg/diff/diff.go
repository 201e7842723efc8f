// Package diff compares two objects, and returns a unified diff of their YAML. It does not interpret the objects. Its one invariant: objects that are
// equal as JSON differ in no line.
package diff

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// CompareObjects returns the unified diff of two objects, with their names in its head; nil if they are equal. A nil object is an absent one.
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
	return lines[1:], nil // without the command line at its beginning
}

func objectYAML(object map[string]any) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return yaml.Marshal(object)
}

// Package deploy carries the manifests that install Sluice, in the order of the kustomize base beside it. It changes none of
// them and talks to no cluster. Its one invariant: what it returns is what kustomization.yaml lists, file by file.
package deploy

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed kustomization.yaml namespace.yaml crds policies rbac parts
var files embed.FS

// Manifests returns the manifests as one YAML stream. A part is a directory or a file without its ending: namespace, crds,
// policies, rbac, parts. Without parts it returns all. An unknown part is an error that names the known ones.
func Manifests(parts ...string) ([]byte, error) {
	paths, err := resources()
	if err != nil {
		return nil, err
	}
	var known []string
	for _, path := range paths {
		if name := partOf(path); !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, part := range parts {
		if !slices.Contains(known, part) {
			return nil, fmt.Errorf("there is no part %q; use %s", part, strings.Join(known, ", "))
		}
	}
	var stream bytes.Buffer
	for _, path := range paths {
		if len(parts) > 0 && !slices.Contains(parts, partOf(path)) {
			continue
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		stream.WriteString("---\n")
		stream.Write(bytes.TrimSuffix(text, []byte("\n")))
		stream.WriteString("\n")
	}
	return stream.Bytes(), nil
}

func partOf(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return strings.TrimSuffix(name, ".yaml")
}

func resources() ([]string, error) {
	text, err := files.ReadFile("kustomization.yaml")
	if err != nil {
		return nil, fmt.Errorf("read kustomization: %w", err)
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, fmt.Errorf("read kustomization: %w", err)
	}
	return kustomization.Resources, nil
}

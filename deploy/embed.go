// Package deploy embeds the manifests that install Sluice, in the order of the kustomize base in its directory. It also has the analysis templates for every
// cluster, which are a separate base. It changes no more in a manifest than the names of an installation, and sends no requests to a cluster. Its one invariant: it returns the
// files that a kustomization.yaml lists, in order.
package deploy

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
)

//go:generate go run ./policies/gen policies
//go:generate go run ./helm/gen .

//go:embed kustomization.yaml namespace.yaml crds policies/*.yaml rbac parts templates/*.yaml webhook/*.yaml
var files embed.FS

// These parts are included only by name. The API server cannot accept templates together with their CRD in one apply, and the webhook is for older clusters.
const (
	templates = "templates"
	webhook   = "webhook"
)

// Manifests returns the manifests of an installation as one YAML stream. A part is a directory or a file without its extension: namespace, crds, policies, rbac, parts, templates,
// webhook. Without parts it returns all but the last two. An unknown part is an error that names the known ones. The part webhook has only its own objects: the
// watcher serves it with --webhook-addr=:9443.
func Manifests(in api.Installation, parts ...string) ([]byte, error) {
	paths, err := resources(".")
	if err != nil {
		return nil, err
	}
	base := len(paths)
	for _, dir := range []string{templates, webhook} {
		further, err := resources(dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, further...)
	}
	var known []string
	for _, file := range paths {
		if name := partOf(file); !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, part := range parts {
		if !slices.Contains(known, part) {
			return nil, fmt.Errorf("there is no part %q; use %s", part, strings.Join(known, ", "))
		}
	}
	var stream bytes.Buffer
	for i, file := range paths {
		wanted := slices.Contains(parts, partOf(file)) || len(parts) == 0 && i < base
		if !wanted {
			continue
		}
		text, err := files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		stream.WriteString("---\n")
		stream.Write(bytes.TrimSuffix(rename(text, in), []byte("\n")))
		stream.WriteString("\n")
	}
	return stream.Bytes(), nil
}

// serviceAccount matches each place of the manifests that names a service account of Sluice.
var serviceAccount = regexp.MustCompile(`(system:serviceaccount:\S+:|serviceAccountName: |_SERVICE_ACCOUNT\n *value: |kind: ServiceAccount\n *(?:metadata:\n *)?name: )sluice-(watcher|executor|analyzer)`)

// rename returns a manifest with the names of an installation in the place of the default ones.
func rename(text []byte, in api.Installation) []byte {
	accounts := in.Accounts()
	text = serviceAccount.ReplaceAllFunc(text, func(match []byte) []byte {
		place := serviceAccount.FindSubmatch(match)
		return append(slices.Clone(place[1]), *accounts[string(place[2])]...)
	})
	return bytes.ReplaceAll(text, []byte(api.DefaultNamespace), []byte(in.Namespace))
}

func partOf(file string) string {
	name, _, _ := strings.Cut(file, "/")
	return strings.TrimSuffix(name, ".yaml")
}

// resources returns the paths that the kustomization in a directory lists.
func resources(dir string) ([]string, error) {
	text, err := files.ReadFile(path.Join(dir, "kustomization.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read kustomization: %w", err)
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, fmt.Errorf("read kustomization: %w", err)
	}
	for i, name := range kustomization.Resources {
		kustomization.Resources[i] = path.Join(dir, name)
	}
	return kustomization.Resources, nil
}

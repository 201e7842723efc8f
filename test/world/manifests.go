package world

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/preflight"
)

// ReadManifests reads the objects of a YAML stream, by kind, namespace and name, such as Service/shop/web. The namespace may be empty.
func ReadManifests(t testing.TB, stream []byte) map[string]map[string]any {
	t.Helper()
	list := map[string]map[string]any{}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return list
		}
		var object map[string]any
		if err == nil {
			err = yaml.Unmarshal(document, &object)
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if object == nil {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		name := fmt.Sprintf("%v/%s/%v", object["kind"], namespace, metadata["name"])
		if list[name] != nil {
			t.Errorf("there are two objects %s", name)
		}
		list[name] = object
	}
}

// WantFit checks that `sluice check` finds the installation of the world, and no error in it.
func (w *World) WantFit(t testing.TB) {
	t.Helper()
	in, err := preflight.FindInstallation(t.Context(), w.Config)
	if err != nil || in != w.Installation {
		t.Fatalf("Sluice is found at %+v, %v; want %+v", in, err, w.Installation)
	}
	look, err := preflight.New(w.Config, in)
	if err != nil {
		t.Fatal(err)
	}
	if found := preflight.Errors(append(look.CheckCluster(t.Context()), look.CheckKnownExecutor(t.Context())...)); len(found) > 0 {
		t.Errorf("the cluster is not fit: %+v", found)
	}
}

package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ReadManifests returns the objects of files and directories, with the elements of lists as objects; "-" means standard input. Objects without a namespace get
// the given one. In a directory it reads *.yaml, *.yml and *.json in the order of their names, and no subdirectories.
func ReadManifests(paths []string, stdin io.Reader, namespace string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			some, err := readFile(file, stdin)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, some...)
		}
	}
	for _, o := range all {
		if o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
	}
	return all, nil
}

func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("find manifests: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name()))
	})
	var files []string
	for _, e := range entries {
		files = append(files, filepath.Join(path, e.Name()))
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no manifest in %s; manifests are *.yaml, *.yml and *.json", path)
	}
	return files, nil
}

func readFile(file string, stdin io.Reader) ([]*unstructured.Unstructured, error) {
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return objectsIn(text)
}

// objectsIn returns the objects of a stream of documents.
func objectsIn(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if body := bytes.TrimSpace(raw.Raw); len(body) == 0 || string(body) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw.Raw); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if o.GetName() == "" && !o.IsList() {
			return nil, fmt.Errorf("a %s has no metadata.name; give it one", o.GetKind())
		}
		if !o.IsList() {
			all = append(all, o)
			continue
		}
		list, err := o.ToList()
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// readCRDs returns the definitions in the given files, and in the *.yaml files of the given directories. It refuses documents of other kinds, because it would
// otherwise drop them silently.
func readCRDs(paths []string) ([]*extensionsv1.CustomResourceDefinition, error) {
	var crds []*extensionsv1.CustomResourceDefinition
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("read definitions: %w", err)
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return nil, fmt.Errorf("list %s: %w", path, err)
			}
		}
		for _, file := range files {
			some, err := readCRDFile(file)
			if err != nil {
				return nil, err
			}
			crds = append(crds, some...)
		}
	}
	return crds, nil
}

func readCRDFile(file string) ([]*extensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	var crds []*extensionsv1.CustomResourceDefinition
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		crd := &extensionsv1.CustomResourceDefinition{}
		err := decoder.Decode(crd)
		switch {
		case errors.Is(err, io.EOF):
			return crds, nil
		case err != nil:
			return nil, fmt.Errorf("decode %s: %w", file, err)
		case crd.Kind == "" && crd.Name == "": // a document that contains only comments
		case crd.Kind != "CustomResourceDefinition":
			return nil, fmt.Errorf("decode %s: it holds a %s; only CustomResourceDefinitions are wanted", file, crd.Kind)
		default:
			crds = append(crds, crd)
		}
	}
}

// installCRDs creates the definitions and returns when the API server serves every version of each.
func installCRDs(ctx context.Context, client extensions.Interface, crds []*extensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		err := created(ctx, func(ctx context.Context) error {
			_, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("create the definition %s: %w", crd.Name, err)
		}
	}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			if !version.Served {
				continue
			}
			path := fmt.Sprintf("/apis/%s/%s/%s", crd.Spec.Group, version.Name, crd.Spec.Names.Plural)
			err := until(ctx, path+" is served", func(ctx context.Context) bool {
				return client.Discovery().RESTClient().Get().AbsPath(path).Param("limit", "1").Do(ctx).Error() == nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

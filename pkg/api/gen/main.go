// Command gen writes the CustomResourceDefinitions of package api, as controller-gen makes
// them, with what controller-gen cannot say: Rollout is served in two versions with one
// schema, the other kinds exist as v1alpha1 only, and templates are of a group of their own.
//
// It runs in the directory of package api and takes the directory to write into. It holds
// no schema of its own: two runs over the same types write the same bytes.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const header = "# Generated from package api by `go generate ./pkg/api`. Do not edit.\n"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen DIRECTORY")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	// "Dangerous" are fractions. The few we take are ratios and probabilities, where no reader's rounding matters.
	cmd := exec.Command("go", "tool", "controller-gen", "crd:allowDangerousTypes=true", "paths=.", "output:crd:stdout")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run controller-gen: %w", err)
	}
	for _, doc := range bytes.Split(out, []byte("\n---\n")) {
		if err := write(dir, bytes.TrimPrefix(doc, []byte("---\n"))); err != nil {
			return err
		}
	}
	return nil
}

func write(dir string, doc []byte) error {
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(doc, &crd); err != nil {
		return fmt.Errorf("decode the output of controller-gen: %w", err)
	}
	complete(&crd)
	text, err := encode(&crd)
	if err != nil {
		return fmt.Errorf("encode %s: %w", crd.Name, err)
	}
	name := filepath.Join(dir, crd.Spec.Group+"_"+crd.Spec.Names.Plural+".yaml")
	return os.WriteFile(name, append([]byte(header), text...), 0o644)
}

// complete gives each kind its group and the versions it is served in.
func complete(crd *apiextensions.CustomResourceDefinition) {
	crd.Labels = map[string]string{"app.kubernetes.io/part-of": "sluice"}
	crd.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter}
	version := &crd.Spec.Versions[0]
	unwrap(version.Schema.OpenAPIV3Schema)
	if strings.HasSuffix(crd.Spec.Names.Kind, "AnalysisTemplate") {
		crd.Spec.Group = "sluice.dev"
		crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	}
	if crd.Spec.Names.Kind != "Rollout" {
		version.Name = "v1alpha1"
		return
	}
	old := *version.DeepCopy()
	old.Name, old.Storage = "v1alpha1", false
	for i, column := range old.AdditionalPrinterColumns {
		old.AdditionalPrinterColumns[i].JSONPath = strings.Replace(column.JSONPath,
			".status.currentStep", ".status.canaryStatus.currentStep", 1)
	}
	crd.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{old, *version}
}

// unwrap joins the lines of descriptions, because kubectl explain breaks them for its reader.
func unwrap(schema *apiextensions.JSONSchemaProps) {
	paragraphs := strings.Split(schema.Description, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	schema.Description = strings.Join(paragraphs, "\n\n")
	for name, property := range schema.Properties {
		unwrap(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		unwrap(schema.Items.Schema)
	}
}

// encode writes crd without its status, which belongs to the API server.
func encode(crd *apiextensions.CustomResourceDefinition) ([]byte, error) {
	text, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	delete(object, "status")
	return yaml.Marshal(object)
}

// Command gen writes the CustomResourceDefinitions of package api, as controller-gen makes
// them, with what controller-gen cannot say: Rollout is served in two versions with one
// schema, the other kinds exist as v1alpha1 only, and templates and the kinds of fleets are of a group of their own.
//
// It runs in the directory of package api and takes the directory to write into. It holds
// no schema of its own: two runs over the same types write the same bytes.
package main

import (
	"bytes"
	"fmt"
	"log"
	"math"
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
	// "Dangerous" are fractions. The few we take are ratios and probabilities, where no reader's rounding matters. Unlike `go tool`,
	// `go run` honours $GOFLAGS, so that it takes the packages that are compiled already.
	cmd := exec.Command("go", "run", "sigs.k8s.io/controller-tools/cmd/controller-gen", "crd:allowDangerousTypes=true", "paths=.", "output:crd:stdout")
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
	each(version.Schema.OpenAPIV3Schema, func(schema *apiextensions.JSONSchemaProps) { unwrap(schema); bound(schema) })
	if kind := crd.Spec.Names.Kind; strings.HasSuffix(kind, "AnalysisTemplate") || strings.HasPrefix(kind, "Fleet") {
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

// each visits a schema and all within it.
func each(schema *apiextensions.JSONSchemaProps, visit func(*apiextensions.JSONSchemaProps)) {
	visit(schema)
	for name, property := range schema.Properties {
		each(&property, visit)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		each(schema.Items.Schema, visit)
	}
}

// unwrap joins the lines of a description, because kubectl explain breaks them for its reader.
func unwrap(schema *apiextensions.JSONSchemaProps) {
	paragraphs := strings.Split(schema.Description, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	schema.Description = strings.Join(paragraphs, "\n\n")
}

// bound gives fields of the format int32 limits. Older API servers, such as 1.30, do not check the format: they would store a larger number,
// which no program can read.
func bound(schema *apiextensions.JSONSchemaProps) {
	if schema.Format != "int32" {
		return
	}
	if schema.Minimum == nil {
		schema.Minimum = new(float64(math.MinInt32))
	}
	if schema.Maximum == nil {
		schema.Maximum = new(float64(math.MaxInt32))
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

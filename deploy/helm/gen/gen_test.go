package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const deployDir = "../.."

func TestTheChartIsWhatTheManifestsAndValuesMake(t *testing.T) {
	t.Parallel()
	files, err := generatedFiles(deployDir)
	if err != nil {
		t.Fatal(err)
	}
	chart := os.DirFS(filepath.Join(deployDir, filepath.FromSlash(chartDir)))
	for name, want := range files {
		if have, err := fs.ReadFile(chart, name); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is out of date, %v: run make generate", name, err)
		}
	}
	for _, whole := range wholeDirs {
		err := fs.WalkDir(chart, whole, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && files[name] == nil {
				t.Errorf("nothing makes %s any more: run make generate", name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A renderer such as Argo CD renders again and again, without the cluster. It must get the same objects each time.
func TestARenderingDependsOnTheValuesOnly(t *testing.T) {
	t.Parallel()
	chart := os.DirFS(filepath.Join(deployDir, filepath.FromSlash(chartDir)))
	err := fs.WalkDir(chart, "templates", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(chart, name)
		for _, function := range []string{"lookup ", "rand", "now", "genCA", "genSigned", "genSelfSigned", "genPrivateKey", "uuidv4", "htpasswd", "bcrypt", ".Release.IsInstall", ".Release.IsUpgrade", ".Release.Revision"} {
			for expression := range strings.SplitSeq(string(text), "{{") {
				if inside, _, ok := strings.Cut(expression, "}}"); ok && !strings.HasPrefix(inside, "- /*") && strings.Contains(inside, function) {
					t.Errorf("%s has %s in {{%s}}", name, function, inside)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Catalogues of charts show these definitions.
func TestTheChartAnnouncesItsDefinitions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deployDir, filepath.FromSlash(chartDir), "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Annotations map[string]string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	var announced []struct{ Kind, Version, Name, DisplayName, Description string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &announced); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, a := range announced {
		if a.Kind == "" || a.DisplayName == "" || a.Description == "" {
			t.Errorf("%s lacks something: %+v", a.Name, a)
		}
		have = append(have, a.Name+"/"+a.Version)
	}
	paths, err := filepath.Glob(filepath.Join(deployDir, "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Metadata struct{ Name string }
			Spec     struct {
				Versions []struct {
					Name    string
					Storage bool
				}
			}
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		for _, v := range definition.Spec.Versions {
			if v.Storage {
				want = append(want, definition.Metadata.Name+"/"+v.Name)
			}
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("Chart.yaml announces %v, want %v", have, want)
	}
}

func TestManifestsThatTheEditorRefuses(t *testing.T) {
	t.Parallel()
	const object = "kind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1\n  list: [a]\ndata:\n  text: one one\n"
	for want, change := range map[string]func(*editor){
		"there is no spec.image":         func(e *editor) { e.value("spec.image", "x") },
		"spec.list is no scalar":         func(e *editor) { e.value("spec.list", "x") },
		"spec.pods.image: there is no":   func(e *editor) { e.extend("spec.pods.image", "x", "") },
		"spec.list has 1 items":          func(e *editor) { e.replace("spec.list", 2, "x") },
		`data.text has "one" 2 times`:    func(e *editor) { e.text("data.text", "one", "two") },
		"there is no spec.serviceName":   func(e *editor) { e.guard("spec.serviceName", "x") },
		"there is no metadata.labels":    func(e *editor) { e.block("metadata.labels", "x") },
		"spec.list is no scalar to omit": func(e *editor) { e.optional("spec.list", "x") },
	} {
		e, err := edit(document{text: object})
		if err != nil {
			t.Fatal(err)
		}
		change(e)
		if _, err := e.result(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := documentsOf([]byte("kind: ConfigMap\nmetadata:\n  name: {{args.x}}\n")); err == nil {
		t.Error("Helm would execute an expression of a manifest")
	}
	for _, incomplete := range []string{"kind: Pod\n", "metadata:\n  name: web\n"} {
		if _, err := documentsOf([]byte(incomplete)); err == nil {
			t.Errorf("%q is taken", incomplete)
		}
	}
}

func TestEachValueIsDescribed(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"a: 1\n":                               "a has no comment",
		"# A.\n# @schema {\na: 1\n":            "its schema is no JSON",
		"# A.\n\n# B.\na:\n  b: true\n":        "a.b has no comment",
		"# A.\n# @schema {\"enum\": 1}\na: {}": "",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"values.yaml": values, "README.md": "<!-- values -->\n<!-- end of values -->\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files, err := describedValues(dir)
		if want == "" && (err != nil || len(slices.Collect(maps.Keys(files))) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: want %q, got %v", values, want, err)
		}
	}
}

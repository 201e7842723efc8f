// Command gen writes the generated files of the Helm chart: the templates and files that follow from the manifests of the installation, and the schema and
// the table that follow from values.yaml. Its argument is the directory deploy. It never changes values.yaml, Chart.yaml or a template that is not in its
// list.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "gen: give the directory deploy")
		os.Exit(2)
	}
	if err := writeChart(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// writeChart writes all generated files of the chart in the directory deploy.
func writeChart(dir string) error {
	files, err := generatedFiles(dir)
	if err != nil {
		return err
	}
	chart := filepath.Join(dir, filepath.FromSlash(chartDir))
	for _, whole := range wholeDirs {
		if err := os.RemoveAll(filepath.Join(chart, filepath.FromSlash(whole))); err != nil {
			return fmt.Errorf("remove the old files: %w", err)
		}
	}
	for name, text := range files {
		path := filepath.Join(chart, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// chartDir is the chart, relative to the directory deploy.
const chartDir = "helm/sluice"

// wholeDirs are the directories of the chart in which each file is generated.
var wholeDirs = []string{"files", "templates/policies"}

// generatedFiles returns the generated files by their paths in the chart, with slashes.
func generatedFiles(dir string) (map[string][]byte, error) {
	files, err := manifestTemplates(dir)
	if err != nil {
		return nil, err
	}
	copied, err := copiedFiles(dir)
	if err != nil {
		return nil, err
	}
	described, err := describedValues(filepath.Join(dir, filepath.FromSlash(chartDir)))
	if err != nil {
		return nil, err
	}
	maps.Copy(files, copied)
	maps.Copy(files, described)
	return files, nil
}

// copiedFiles returns the files that Helm must not execute as templates: they hold expressions of other template languages.
func copiedFiles(dir string) (map[string][]byte, error) {
	copied := map[string][]byte{}
	for _, pattern := range []string{"crds/*.yaml", "templates/*.yaml", "monitoring/*"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", pattern, err)
		}
		for _, file := range found {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", pattern, err)
			}
			copied[path.Join("files", filepath.Base(filepath.Dir(file)), filepath.Base(file))] = text
		}
	}
	return copied, nil
}

// header begins each generated template.
const header = "{{- /* Generated from the manifests in deploy. Do not edit. */ -}}\n"

// document is one object of a manifest, with the comments before it.
type document struct {
	kind, name string
	text       string
}

// documentsOf splits a stream of manifests.
func documentsOf(stream []byte) ([]document, error) {
	if bytes.Contains(stream, []byte("{{")) {
		return nil, errors.New("a manifest has {{, which Helm would execute")
	}
	var all []document
	for text := range strings.SplitSeq("\n"+string(stream), "\n---\n") {
		if text = strings.Trim(text, "\n"); text == "" {
			continue
		}
		d := document{text: text + "\n"}
		for line := range strings.SplitSeq(text, "\n") {
			if kind, ok := strings.CutPrefix(line, "kind: "); ok {
				d.kind = kind
			}
			if name, ok := strings.CutPrefix(line, "  name: "); ok && d.name == "" {
				d.name = name
			}
		}
		if d.kind == "" || d.name == "" {
			return nil, fmt.Errorf("a manifest has no kind or no name:\n%s", text)
		}
		all = append(all, d)
	}
	return all, nil
}

// when returns the text of a template under a condition.
func when(condition, text string) string {
	return "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
}

// join returns the templates as one file.
func join(texts []string) []byte {
	return []byte(header + strings.Join(texts, "---\n"))
}

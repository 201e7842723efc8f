package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// describedValues returns the schema of values.yaml, and README.md with the table of values.
func describedValues(chart string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("parse values.yaml: %w", err)
	}
	d := description{}
	schema := d.object("", document.Content[0])
	if err := errors.Join(d.errs...); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Values of the Helm chart of Sluice"
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	page, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		return nil, fmt.Errorf("read the page of the chart: %w", err)
	}
	const open, end = "<!-- values -->\n", "<!-- end of values -->\n"
	before, rest, begins := bytes.Cut(page, []byte(open))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return nil, fmt.Errorf("README.md lacks the lines %q and %q", strings.TrimSpace(open), strings.TrimSpace(end))
	}
	table := open + "| value | default | meaning |\n|---|---|---|\n" + strings.Join(d.rows, "") + end
	return map[string][]byte{
		"values.schema.json": encoded.Bytes(),
		"README.md":          bytes.Join([][]byte{before, []byte(table), after}, nil),
	}, nil
}

// description collects the rows of the table.
type description struct {
	rows []string
	errs []error
}

// object returns the schema of an object that has no other keys than these.
func (d *description) object(path string, node *yaml.Node) map[string]any {
	properties := map[string]any{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		properties[key.Value] = d.property(strings.TrimPrefix(path+"."+key.Value, "."), key, value)
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

// property returns the schema of a value. An object without a schema of its own may have no other keys than its defaults.
func (d *description) property(path string, key, value *yaml.Node) map[string]any {
	about, own, err := commentOf(key)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", path, err))
	}
	if value.Kind == yaml.MappingNode && len(value.Content) > 0 && own == nil {
		return d.object(path, value)
	}
	if about == "" {
		d.errs = append(d.errs, fmt.Errorf("%s has no comment", path))
	}
	schema := map[string]any{"description": about}
	switch {
	case value.Kind == yaml.MappingNode:
		schema["type"] = "object"
	case value.Kind == yaml.SequenceNode:
		schema["type"] = "array"
	case value.Tag == "!!int":
		schema["type"] = "integer"
	case value.Tag == "!!bool":
		schema["type"] = "boolean"
	default:
		schema["type"] = "string"
	}
	maps.Copy(schema, own)
	d.rows = append(d.rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", path, d.defaultOf(value), strings.ReplaceAll(about, "|", `\|`)))
	return schema
}

// defaultOf returns a default value as JSON.
func (d *description) defaultOf(value *yaml.Node) string {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		d.errs = append(d.errs, err)
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		d.errs = append(d.errs, err)
	}
	return string(text)
}

// commentOf returns the text of the comment directly above a key, and the schema in it; nil if it has none.
func commentOf(key *yaml.Node) (about string, schema map[string]any, err error) {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	var words []string
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		if text, ok := strings.CutPrefix(line, "@schema "); ok {
			if err := json.Unmarshal([]byte(text), &schema); err != nil {
				return "", nil, fmt.Errorf("its schema is no JSON: %w", err)
			}
		} else if line != "" {
			words = append(words, line)
		}
	}
	return strings.Join(words, " "), schema, nil
}

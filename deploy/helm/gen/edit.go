package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// editor replaces values of one object by template expressions, and keeps everything else, comments included. A path has keys and indices, separated by
// dots; a dot in a key has a backslash before it.
type editor struct {
	document yaml.Node
	marks    []mark
	errs     []error
}

// mark is a place of the object that becomes a template. Its line in the YAML names it.
type mark struct {
	// inline is the value of a key on its own line. lines returns the lines in the place of the line with the mark, with that indentation.
	inline string
	lines  func(indent string) string
}

func edit(d document) (*editor, error) {
	e := &editor{}
	if err := yaml.Unmarshal([]byte(d.text), &e.document); err != nil {
		return nil, fmt.Errorf("parse %s %s: %w", d.kind, d.name, err)
	}
	return e, nil
}

const markPrefix = "template-mark-"

func (e *editor) mark(m mark) string {
	e.marks = append(e.marks, m)
	return markPrefix + strconv.Itoa(len(e.marks)-1)
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// keys splits a path.
func keys(path string) []string {
	const dot = "\x00"
	all := strings.Split(strings.ReplaceAll(strings.TrimSuffix(path, "."), `\.`, dot), ".")
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], dot, ".")
	}
	return all
}

// find returns the node at a path; ok is false if only its last key is missing, and in is then the node that lacks it.
func (e *editor) find(path string) (node, in *yaml.Node, last string, ok bool) {
	node = e.document.Content[0]
	for at, key := range keys(path) {
		in, last = node, key
		node = child(in, key)
		if node == nil {
			if at < len(keys(path))-1 {
				e.errs = append(e.errs, fmt.Errorf("%s: there is no %s", path, key))
			}
			return nil, in, last, false
		}
	}
	return node, in, last, true
}

// keyIndex returns the index of a key among the keys and values of an object, -1 if it has no such key.
func keyIndex(in *yaml.Node, key string) int {
	for i := 0; i < len(in.Content); i += 2 {
		if in.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func child(in *yaml.Node, key string) *yaml.Node {
	switch in.Kind {
	case yaml.MappingNode:
		if i := keyIndex(in, key); i >= 0 {
			return in.Content[i+1]
		}
	case yaml.SequenceNode:
		if n, err := strconv.Atoi(key); err == nil && n < len(in.Content) {
			return in.Content[n]
		}
	}
	return nil
}

func (e *editor) mustFind(path string) *yaml.Node {
	node, _, _, ok := e.find(path)
	if !ok {
		e.errs = append(e.errs, fmt.Errorf("there is no %s", path))
		return &yaml.Node{}
	}
	return node
}

// value replaces a scalar by an expression.
func (e *editor) value(path, expression string) {
	if node := e.mustFind(path); node.Kind == yaml.ScalarNode {
		*node = *scalar(e.mark(mark{inline: "{{ " + expression + " }}"}))
		return
	}
	e.errs = append(e.errs, fmt.Errorf("%s is no scalar", path))
}

// block replaces an object by a value.
func (e *editor) block(path, value string) {
	node := e.mustFind(path)
	comment := node.HeadComment
	*node = yaml.Node{Kind: yaml.MappingNode, HeadComment: comment}
	e.append(node, func(indent string) string {
		return fmt.Sprintf("%s{{- toYaml %s | nindent %d }}\n", indent, value, len(indent))
	})
}

// optional replaces a scalar by a value, and leaves the key out if the value is null.
func (e *editor) optional(path, value string) {
	node, in, key, ok := e.find(path)
	if !ok || node.Kind != yaml.ScalarNode {
		e.errs = append(e.errs, fmt.Errorf("%s is no scalar to omit", path))
		return
	}
	at := keyIndex(in, key)
	in.Content[at].Value = e.mark(mark{lines: func(indent string) string {
		return fmt.Sprintf("%s{{- if not (kindIs \"invalid\" %s) }}\n%s%s: {{ %s }}\n%s{{- end }}\n", indent, value, indent, key, value, indent)
	}})
	*in.Content[at+1] = *scalar("")
}

// extend appends the YAML of an expression to a list or to an object. It leaves everything out if the condition is empty; without a condition, if the
// expression is. A missing list becomes one that has only the expression.
func (e *editor) extend(path, expression, condition string) {
	node, in, key, ok := e.find(path)
	lines := func(indent, key string) string {
		inner, depth := indent, len(indent)
		var open string
		if key != "" {
			inner, depth = indent+"  ", len(indent)+2
			open = indent + key + ":\n"
		}
		if condition == "" {
			return fmt.Sprintf("%s{{- with %s }}\n%s%s{{- . | nindent %d }}\n%s{{- end }}\n", indent, expression, open, inner, depth, indent)
		}
		return fmt.Sprintf("%s{{- if %s }}\n%s%s{{- %s | nindent %d }}\n%s{{- end }}\n", indent, condition, open, inner, expression, depth, indent)
	}
	if ok {
		e.append(node, func(indent string) string { return lines(indent, "") })
	} else {
		e.append(in, func(indent string) string { return lines(indent, key) })
	}
}

// append adds a line with a mark to a list or to an object.
func (e *editor) append(node *yaml.Node, lines func(indent string) string) {
	node.Style = 0
	name := e.mark(mark{lines: lines})
	if node.Kind == yaml.SequenceNode {
		node.Content = append(node.Content, scalar(name))
	} else {
		node.Content = append(node.Content, scalar(name), scalar(""))
	}
}

// replace replaces the first n items of a list by the YAML of an expression.
func (e *editor) replace(path string, n int, expression string) {
	node := e.mustFind(path)
	if len(node.Content) < n {
		e.errs = append(e.errs, fmt.Errorf("%s has %d items", path, len(node.Content)))
		return
	}
	name := e.mark(mark{lines: func(indent string) string {
		return fmt.Sprintf("%s{{- %s | nindent %d }}\n", indent, expression, len(indent))
	}})
	node.Content = append([]*yaml.Node{scalar(name)}, node.Content[n:]...)
}

// guard leaves a key and its value out if the condition is empty.
func (e *editor) guard(path, condition string) {
	_, in, key, ok := e.find(path)
	if !ok {
		e.errs = append(e.errs, fmt.Errorf("there is no %s", path))
		return
	}
	open := e.mark(mark{lines: func(indent string) string { return indent + "{{- if " + condition + " }}\n" }})
	end := e.mark(mark{lines: func(indent string) string { return indent + "{{- end }}\n" }})
	at := keyIndex(in, key)
	in.Content = slices.Insert(in.Content, at+2, scalar(end), scalar(""))
	in.Content = slices.Insert(in.Content, at, scalar(open), scalar(""))
}

// text replaces a part of a text.
func (e *editor) text(path, old, with string) {
	node := e.mustFind(path)
	if strings.Count(node.Value, old) != 1 {
		e.errs = append(e.errs, fmt.Errorf("%s has %q %d times", path, old, strings.Count(node.Value, old)))
		return
	}
	node.Value = strings.Replace(node.Value, old, with, 1)
}

var markedLine = regexp.MustCompile(`(?m)^( *)(?:- )?` + markPrefix + `(\d+)(?:: "")?\n`)

// result returns the template.
func (e *editor) result() (string, error) {
	if err := errors.Join(e.errs...); err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&e.document); err != nil {
		return "", fmt.Errorf("write the template: %w", err)
	}
	text := markedLine.ReplaceAllStringFunc(out.String(), func(line string) string {
		found := markedLine.FindStringSubmatch(line)
		n, _ := strconv.Atoi(found[2])
		return e.marks[n].lines(found[1])
	})
	for i, m := range e.marks {
		if m.inline != "" {
			text = regexp.MustCompile(markPrefix+strconv.Itoa(i)+`\b`).ReplaceAllLiteralString(text, m.inline)
		}
	}
	return text, nil
}

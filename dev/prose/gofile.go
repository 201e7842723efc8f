package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

var (
	directive = regexp.MustCompile(`^//(?:[a-z0-9]+:[a-z0-9]|line |export |nolint)`)
	verb      = regexp.MustCompile(`%[-+# 0]*(?:\[\d+\])?[0-9.*]*[a-zA-Z]`)
	plainWord = regexp.MustCompile(`^["'(]*[A-Za-z][a-z'-]*[.,;:!?)"']*$`)
)

// readGo returns the comments of a file, and the string literals that read as prose. The literals of tests are data and the literals of
// mutants quote the product, so both are left out.
func readGo(file string, source []byte) ([]*passage, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	contracts := exportedComments(parsed, strings.HasSuffix(file, "_test.go"))
	var all []*passage
	for _, group := range parsed.Comments {
		kind := comment
		if contracts[group] {
			kind = exported
		}
		all = append(all, readComment(files, group, kind)...)
	}
	if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") && !strings.HasPrefix(file, "dev/mutants/") {
		all = append(all, readMessages(files, parsed)...)
	}
	return all, nil
}

// exportedComments returns the comments that are contracts: of the package, and of exported declarations, fields and methods. No other
// package can use the exported names of a test file.
func exportedComments(file *ast.File, isTest bool) map[*ast.CommentGroup]bool {
	contracts := map[*ast.CommentGroup]bool{}
	if file.Doc != nil {
		contracts[file.Doc] = true
	}
	if isTest {
		return contracts
	}
	mark := func(names []*ast.Ident, groups ...*ast.CommentGroup) {
		for _, name := range names {
			if name.IsExported() {
				for _, group := range groups {
					contracts[group] = true
				}
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			mark([]*ast.Ident{n.Name}, n.Doc)
			return false
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					mark([]*ast.Ident{s.Name}, n.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					mark(s.Names, n.Doc, s.Doc, s.Comment)
				}
			}
		case *ast.Field:
			mark(n.Names, n.Doc, n.Comment)
		}
		return true
	})
	delete(contracts, nil)
	return contracts
}

// readComment returns the paragraphs and list items of a comment. Directives, markers of generators and indented code are left out.
func readComment(files *token.FileSet, group *ast.CommentGroup, kind kind) []*passage {
	r := &reader{kind: kind}
	for _, c := range group.List {
		if directive.MatchString(c.Text) {
			continue
		}
		line := files.Position(c.Pos()).Line
		if text, ok := strings.CutPrefix(c.Text, "//"); ok {
			r.addLine(strings.TrimPrefix(text, " "), line)
			continue
		}
		text := strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
		for i, part := range strings.Split(text, "\n") {
			r.addLine(strings.TrimSpace(part), line+i)
		}
	}
	r.end()
	return r.all
}

// A reader collects the passages of text that is laid out as comments of Go are.
type reader struct {
	kind    kind
	all     []*passage
	current *passage
	list    bool // within a list item
}

func (r *reader) end() {
	if r.current != nil && !r.current.isEmpty() {
		r.all = append(r.all, r.current)
	}
	r.current = nil
}

// addLine adds a line of a comment, without the slashes and the blank that follows them.
func (r *reader) addLine(text string, line int) {
	trimmed := strings.TrimSpace(text)
	indented := strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")
	switch {
	case trimmed == "" || strings.HasPrefix(trimmed, "+"):
		r.end()
		r.list = r.list && trimmed == ""
		return
	case item.MatchString(text):
		r.end()
		r.list = true
		trimmed = item.ReplaceAllString(text, "")
	case indented && !r.list:
		r.end()
		return
	case !indented && r.list && r.current == nil:
		r.list = false
	}
	if strings.HasPrefix(trimmed, "# ") {
		r.end()
	}
	if r.current == nil {
		r.current = &passage{kind: r.kind}
	}
	r.current.add(trimmed+"\n", line)
}

// readMessages returns the string literals that read as prose: help texts, errors, log lines, conditions.
func readMessages(files *token.FileSet, root ast.Node) []*passage {
	var all []*passage
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Use" || key.Name == "Example") {
				return false
			}
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				m := &literal{files: files}
				m.join(n)
				all = append(all, m.passages()...)
				for _, operand := range m.others {
					all = append(all, readMessages(files, operand)...)
				}
				return false
			}
		case *ast.BasicLit:
			m := &literal{files: files}
			m.join(n)
			all = append(all, m.passages()...)
		}
		return true
	})
	return all
}

// value stands for a value within a message. It counts as one word.
const value = "X"

// A literal is a sum of strings and of values.
type literal struct {
	files   *token.FileSet
	passage passage
	// others are the operands that are no literals, such as calls, which may have messages as arguments.
	others []ast.Expr
}

func (l *literal) join(expr ast.Expr) {
	switch n := expr.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.ADD {
			l.join(n.X)
			l.join(n.Y)
			return
		}
	case *ast.ParenExpr:
		l.join(n.X)
		return
	case *ast.BasicLit:
		if n.Kind != token.STRING {
			return
		}
		text, err := strconv.Unquote(n.Value)
		if err != nil {
			return
		}
		line := l.files.Position(n.Pos()).Line
		raw := strings.HasPrefix(n.Value, "`")
		for part := range strings.Lines(verb.ReplaceAllString(text, value)) {
			l.passage.add(part, line)
			if raw {
				line++
			}
		}
		return
	}
	l.others = append(l.others, expr)
	l.passage.add(value, l.files.Position(expr.Pos()).Line)
}

// passages returns the paragraphs of a literal that reads as prose, or nothing.
func (l *literal) passages() []*passage {
	fields := strings.Fields(l.passage.text.String())
	words := 0
	for _, field := range fields {
		if field != value && plainWord.MatchString(field) {
			words++
		}
	}
	if words < 4 || words*4 < len(fields)*3 {
		return nil
	}
	r := &reader{kind: message}
	at := 0
	for line := range strings.Lines(l.passage.text.String()) {
		// A line of the text may stand in several lines of the file.
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t") {
			r.end()
		} else {
			if r.current == nil {
				r.current = &passage{kind: message}
			}
			r.current.text.WriteString(line)
			r.current.lines = append(r.current.lines, l.passage.lines[at:at+len(line)]...)
		}
		at += len(line)
	}
	r.end()
	return r.all
}

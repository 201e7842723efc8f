package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

func isWord(text string, at int) bool {
	if at >= len(text) {
		return false
	}
	c, _ := utf8.DecodeRuneInString(text[at:])
	return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_'
}

// namedTest is a test as documents name it, after the directory of its package.
var namedTest = regexp.MustCompile(`([a-z][A-Za-z0-9_/]*) ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)`)

// comments renames the first word of a doc comment.
func (r *renamer) comments(file string, f *ast.File, p *packages.Package) {
	doc := func(ident *ast.Ident, comment *ast.CommentGroup) {
		obj := p.TypesInfo.Defs[ident]
		if comment == nil || obj == nil {
			return
		}
		if to := r.rename(obj); to != ident.Name {
			_, at := r.rel(comment.Pos())
			if first := comment.List[0].Text; strings.HasPrefix(first, "// "+ident.Name) && !isWord(first, 3+len(ident.Name)) {
				r.edit(file, at+3, at+3+len(ident.Name), to)
			}
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			doc(d.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					doc(s.Name, cmp.Or(s.Doc, d.Doc))
				case *ast.ValueSpec:
					doc(s.Names[0], cmp.Or(s.Doc, d.Doc))
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 {
			doc(field.Names[0], field.Doc)
		}
		return true
	})
}

func (r *renamer) newDirOf(dir string) string { return path.Dir(r.newPath(dir + "/x.go")) }

// renamedImports changes import paths in a Go file that is not built here.
func (r *renamer) renamedImports(text []byte) []byte {
	for from, to := range r.dirs {
		text = bytes.ReplaceAll(text, []byte(`"`+module+"/"+from+`"`), []byte(`"`+module+"/"+to+`"`))
	}
	return text
}

// renamedPaths changes paths of files and directories in a text.
func (r *renamer) renamedPaths(text []byte) []byte {
	text = namedTest.ReplaceAllFunc(text, func(match []byte) []byte {
		dir, name, _ := strings.Cut(string(match), " ")
		if to := r.tests[string(match)]; to != "" && to != dir {
			return []byte(to + " " + name)
		}
		return match
	})
	var froms []string
	all := map[string]string{}
	for _, of := range []map[string]string{r.dirs, r.table.files} {
		for from, to := range of {
			froms, all[from] = append(froms, regexp.QuoteMeta(from)), to
		}
	}
	if len(froms) == 0 {
		return text
	}
	slices.SortFunc(froms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	paths := regexp.MustCompile(`(^|[^A-Za-z0-9_./-]|\./|\.\./|` + regexp.QuoteMeta(module) + `/)(` + strings.Join(froms, "|") + `)($|[^A-Za-z0-9_-])`)
	for range 2 { // a match takes the character after it, which another one may need before it
		text = paths.ReplaceAllFunc(text, func(match []byte) []byte {
			m := paths.FindSubmatch(match)
			return slices.Concat(m[1], []byte(all[string(m[2])]), m[3])
		})
	}
	return text
}

// rewritten returns a Go file after the change.
func (r *renamer) rewritten(file string, text []byte) ([]byte, error) {
	edits := slices.SortedFunc(func(yield func(edit) bool) {
		for e := range r.edits[file] {
			if !yield(e) {
				return
			}
		}
	}, func(a, b edit) int { return cmp.Or(cmp.Compare(b.from, a.from), cmp.Compare(b.to, a.to)) })
	out := text
	for _, e := range edits {
		out = slices.Concat(out[:e.from], []byte(e.text), out[e.to:])
	}
	needs := r.imports[file]
	if len(edits) == 0 && len(needs) == 0 {
		return out, nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, out, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return out, err
	}
	changed := false
	own := module + "/" + r.newDir(file)
	for _, spec := range slices.Clone(f.Imports) {
		value := strings.Trim(spec.Path.Value, `"`)
		dir, ours := strings.CutPrefix(value, module+"/")
		if !ours {
			continue
		}
		name := ""
		if spec.Name != nil {
			name = spec.Name.Name
		}
		_, needed := needs[value]
		if name == "_" || needed {
			continue
		}
		if to := r.newDirOf(dir); to != dir || r.splits(dir) || value == own {
			astutil.DeleteNamedImport(fset, f, name, value)
			changed = true
			if moved := module + "/" + to; to != dir && name == "_" {
				astutil.AddNamedImport(fset, f, name, moved)
			}
		}
	}
	for value, name := range needs {
		if value == own && !strings.HasSuffix(f.Name.Name, "_test") {
			continue
		}
		if slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool {
			return strings.Trim(s.Path.Value, `"`) == value && (s.Name == nil || s.Name.Name != "_")
		}) {
			continue
		}
		changed = astutil.AddNamedImport(fset, f, name, value) || changed
	}
	var b bytes.Buffer
	if changed {
		ast.SortImports(fset, f)
		if err := format.Node(&b, fset, f); err != nil {
			return out, err
		}
		return b.Bytes(), nil
	}
	return format.Source(out)
}

// splits reports whether a single file moves out of a directory.
func (r *renamer) splits(dir string) bool {
	for from, to := range r.table.files {
		if path.Dir(from) == dir && path.Dir(to) != dir {
			return true
		}
	}
	return false
}

// write carries out all edits, moves the files, and changes paths in all other files.
func (r *renamer) write() error {
	listed, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return err
	}
	var all []string
	for _, file := range strings.Fields(string(listed)) {
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			all = append(all, file)
		}
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		changed := text
		if r.files[file] != nil {
			if changed, err = r.rewritten(file, text); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		} else if strings.HasSuffix(file, ".go") {
			changed = r.renamedImports(changed)
		}
		if !bytes.ContainsRune(text, 0) && !strings.HasPrefix(file, "dev/rename/") {
			changed = r.renamedPaths(changed)
		}
		if strings.HasSuffix(file, ".go") && !bytes.Equal(text, changed) {
			if changed, err = format.Source(changed); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if !bytes.Equal(text, changed) {
			if err := os.WriteFile(file, changed, 0o644); err != nil {
				return err
			}
		}
	}
	moved := map[string]string{} // a new place for each, because a file may move to the old path of another one
	for _, file := range all {
		if to := r.newPath(file); to != file {
			if err := os.Rename(file, file+".moved"); err != nil {
				return err
			}
			moved[file+".moved"] = to
		}
	}
	for file, to := range moved {
		if err := os.MkdirAll(path.Dir(to), 0o755); err != nil {
			return err
		}
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("%s is there already", to)
		}
		if err := os.Rename(file, to); err != nil {
			return err
		}
	}
	return nil
}

// Command rename changes the layout and the names of this tree by a table, so that the same change can be made again on a newer tree. It rewrites Go files by what
// the type checker knows, and paths in all other text files.
//
//	go run ./dev/rename TABLE...
//
// Each line of a table has three fields, separated by tabs; # begins a comment:
//
//	decl     pkg/a.Type.Method  pkg/a/other.go     a declaration moves within its package, before anything else
//	package  pkg/old            pkg/new            all files of a directory move
//	file     pkg/a/old.go       pkg/b/new.go       one file moves, perhaps to another package
//	symbol   pkg/a.Type.Member  NewName            a name changes; pkg/a.Name for one of the package's scope
//
// Paths and names are those before the change. A name that another package uses after the change is exported.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

const module = "sluice.dev/sluice"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
}

// table is what is to change.
type table struct {
	dirs    map[string]string // old directory: new one
	files   map[string]string // old file: new one
	symbols map[string]string // old qualified name: new name
	decls   map[string]string // qualified name of a declaration: file
}

func readTable(names []string) (*table, error) {
	t := &table{dirs: map[string]string{}, files: map[string]string{}, symbols: map[string]string{}, decls: map[string]string{}}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			line, _, _ = strings.Cut(line, "#")
			fields := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
			if len(fields) == 0 {
				continue
			}
			if len(fields) != 3 {
				return nil, fmt.Errorf("%s:%d: want 3 fields, got %d", name, i+1, len(fields))
			}
			into := map[string]map[string]string{"package": t.dirs, "file": t.files, "symbol": t.symbols, "decl": t.decls}[fields[0]]
			if into == nil {
				return nil, fmt.Errorf("%s:%d: unknown kind of line %q", name, i+1, fields[0])
			}
			into[strings.TrimSpace(fields[1])] = strings.TrimSpace(fields[2])
		}
	}
	return t, nil
}

// newPath is where a file is after the change.
func (t *table) newPath(file string) string {
	if to := t.files[file]; to != "" {
		return to
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if to := t.dirs[dir]; to != "" {
			return to + strings.TrimPrefix(file, dir)
		}
	}
	return file
}

// place is a position in a file of the tree.
type place struct {
	file   string
	offset int
}

// edit replaces bytes of a file.
type edit struct {
	from, to int
	text     string
}

type renamer struct {
	*table
	root    string
	fset    *token.FileSet
	names   map[place]string // new names, by where the old ones are declared
	done    map[string]bool  // rows of the table that were found
	edits   map[string]map[edit]bool
	imports map[string]map[string]string // of a file: import paths that it needs, and their names
	drops   map[string]map[string]bool   // of a file: import paths that it may no longer need
	pkgName map[string]string            // of an old directory
	files   map[string]*ast.File
	tests   map[string]string // new directory of a test, by its old directory and its name
}

func run(tables []string) error {
	t, err := readTable(tables)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := moveDecls(t.decls); err != nil {
		return err
	}
	r := &renamer{
		table: t, root: root, fset: token.NewFileSet(), names: map[place]string{}, done: map[string]bool{}, edits: map[string]map[edit]bool{},
		imports: map[string]map[string]string{}, drops: map[string]map[string]bool{}, pkgName: map[string]string{}, files: map[string]*ast.File{}, tests: map[string]string{},
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
		Fset: r.fset, Tests: true, Dir: root,
	}, "./...")
	if err != nil {
		return err
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			return fmt.Errorf("load %s: %v", p.ID, e)
		}
	}
	for _, p := range loaded {
		r.findNames(p)
	}
	for _, p := range loaded {
		r.findExports(p)
	}
	for _, p := range loaded {
		r.rewriteUses(p)
	}
	var missing []string
	for name := range t.symbols {
		if !r.done[name] {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		return fmt.Errorf("nothing is called %s", strings.Join(missing, ", "))
	}
	return r.write()
}

// rel is a file's path from the root, "" for one outside of the tree.
func (r *renamer) rel(pos token.Pos) (string, int) {
	if !pos.IsValid() {
		return "", 0
	}
	p := r.fset.PositionFor(pos, false)
	file, err := filepath.Rel(r.root, p.Filename)
	if err != nil || strings.HasPrefix(file, "..") || !strings.HasSuffix(file, ".go") {
		return "", 0
	}
	return file, p.Offset
}

func (r *renamer) placeOf(obj types.Object) place {
	file, offset := r.rel(origin(obj).Pos())
	return place{file, offset}
}

func origin(obj types.Object) types.Object {
	switch o := obj.(type) {
	case *types.Var:
		return o.Origin()
	case *types.Func:
		return o.Origin()
	}
	return obj
}

// findNames finds where the names of the table are declared.
func (r *renamer) findNames(p *packages.Package) {
	for _, f := range p.Syntax {
		file, _ := r.rel(f.FileStart)
		if file != "" {
			r.files[file] = f
			r.pkgName[path.Dir(file)] = strings.TrimSuffix(f.Name.Name, "_test")
			for _, decl := range f.Decls {
				if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasSuffix(file, "_test.go") {
					r.tests[path.Dir(file)+" "+d.Name.Name] = r.newDir(file)
				}
			}
		}
	}
	for ident, obj := range p.TypesInfo.Defs {
		file, offset := r.rel(ident.Pos())
		if file == "" || obj == nil {
			continue
		}
		for _, name := range qualified(path.Dir(file), obj, p) {
			if to := r.symbols[name]; to != "" {
				r.names[place{file, offset}] = to
				r.done[name] = true
			}
		}
	}
}

// qualified are the names by which a table may speak of an object.
func qualified(dir string, obj types.Object, p *packages.Package) (names []string) {
	switch o := obj.(type) {
	case *types.Func:
		if recv := o.Signature().Recv(); recv != nil {
			t := recv.Type()
			if ptr, ok := t.(*types.Pointer); ok {
				t = ptr.Elem()
			}
			if named, ok := t.(*types.Named); ok {
				return []string{dir + "." + named.Obj().Name() + "." + o.Name()}
			}
			return ownersOf(dir, o, p)
		}
	case *types.Var:
		if o.IsField() {
			return ownersOf(dir, o, p)
		}
	}
	if obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope() {
		return []string{dir + "." + obj.Name()}
	}
	return nil
}

// ownersOf are the names of a field or an interface's method, by the types of the package's scope that declare it.
func ownersOf(dir string, obj types.Object, p *packages.Package) (names []string) {
	scope := p.Types.Scope()
	for _, name := range scope.Names() {
		of, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || of.IsAlias() {
			continue
		}
		switch u := of.Type().Underlying().(type) {
		case *types.Struct:
			for i := range u.NumFields() {
				if origin(u.Field(i)) == origin(obj) {
					names = append(names, dir+"."+name+"."+obj.Name())
				}
			}
		case *types.Interface:
			for i := range u.NumExplicitMethods() {
				if u.ExplicitMethod(i) == obj {
					names = append(names, dir+"."+name+"."+obj.Name())
				}
			}
		}
	}
	return names
}

// newDir is the directory of a file after the change.
func (r *renamer) newDir(file string) string { return path.Dir(r.newPath(file)) }

// findExports gives names to what another package uses after the change.
func (r *renamer) findExports(p *packages.Package) {
	for ident, obj := range p.TypesInfo.Uses {
		file, _ := r.rel(ident.Pos())
		at := r.placeOf(obj)
		if file == "" || at.file == "" || !r.shared(obj) || r.newDir(file) == r.newDir(at.file) && !external(r.files[file], r.files[at.file]) {
			continue
		}
		if strings.HasSuffix(at.file, "_test.go") && r.newDir(file) != r.newDir(at.file) {
			fmt.Fprintf(os.Stderr, "%s uses %s of the test file %s\n", file, obj.Name(), at.file)
		}
		if name := cmp.Or(r.names[at], obj.Name()); !token.IsExported(name) {
			r.names[at] = exported(name)
			fmt.Fprintf(os.Stderr, "exported: %s.%s, which %s uses\n", path.Dir(at.file), obj.Name(), file)
		}
	}
}

// external reports whether a file of an external test package refers to one of the package.
func external(from, to *ast.File) bool {
	return from.Name.Name != to.Name.Name && strings.HasSuffix(from.Name.Name, "_test")
}

// shared reports whether an object can be used outside of a function.
func (r *renamer) shared(obj types.Object) bool {
	switch o := obj.(type) {
	case *types.PkgName, *types.Label, *types.Builtin, *types.Nil:
		return false
	case *types.Var:
		if o.IsField() {
			return true
		}
	case *types.Func:
		if o.Signature().Recv() != nil {
			return true
		}
	}
	return obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope()
}

func exported(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first)) + name[size:]
}

// rename is the new name of an object.
func (r *renamer) rename(obj types.Object) string {
	if to := r.names[r.placeOf(obj)]; to != "" {
		return to
	}
	if field, ok := obj.(*types.Var); ok && field.Embedded() { // it is called as its type is
		t := field.Type()
		if ptr, is := t.(*types.Pointer); is {
			t = ptr.Elem()
		}
		switch t := t.(type) {
		case *types.Named:
			return r.rename(t.Obj())
		case *types.Alias:
			return r.rename(t.Obj())
		}
	}
	return obj.Name()
}

func (r *renamer) edit(file string, from, to int, text string) {
	if r.edits[file] == nil {
		r.edits[file] = map[edit]bool{}
	}
	r.edits[file][edit{from, to, text}] = true
}

// rewriteUses rewrites all names of a package's files, and notes what they import.
func (r *renamer) rewriteUses(p *packages.Package) {
	for _, f := range p.Syntax {
		file, _ := r.rel(f.FileStart)
		if file == "" {
			continue
		}
		if to := r.packageName(file); to != f.Name.Name {
			_, at := r.rel(f.Name.Pos())
			r.edit(file, at, at+len(f.Name.Name), to)
			if start := "// Package " + f.Name.Name; f.Doc != nil && strings.HasPrefix(f.Doc.List[0].Text, start) {
				_, at := r.rel(f.Doc.Pos())
				r.edit(file, at, at+len(start), "// Package "+to)
			}
		}
		r.comments(file, f, p)
	}
	qualifiers := map[*ast.Ident]*ast.Ident{} // the selected name: its qualifier
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok {
					if _, is := p.TypesInfo.Uses[x].(*types.PkgName); is {
						qualifiers[sel.Sel] = x
					}
				}
			}
			return true
		})
	}
	for _, of := range []map[*ast.Ident]types.Object{p.TypesInfo.Defs, p.TypesInfo.Uses} {
		for ident, obj := range of {
			if file, at := r.rel(ident.Pos()); file != "" && obj != nil {
				r.rewrite(file, at, ident, obj, qualifiers[ident], p.TypesInfo)
			}
		}
	}
}

// packageName is the package clause of a file after the change.
func (r *renamer) packageName(file string) string {
	now := r.files[file].Name.Name
	dir, to := path.Dir(file), r.newDir(file)
	if dir == to || strings.TrimSuffix(now, "_test") == "main" {
		return now
	}
	name := path.Base(to)
	if known := r.pkgName[to]; known != "" {
		name = known
	}
	if strings.HasSuffix(now, "_test") {
		name += "_test"
	}
	return name
}

func (r *renamer) rewrite(file string, at int, ident *ast.Ident, obj types.Object, qualifier *ast.Ident, info *types.Info) {
	declared := r.placeOf(obj)
	if declared.file == "" {
		return
	}
	name := r.rename(obj)
	if name != ident.Name && ident.Name != "_" {
		if obj.Name() == ident.Name {
			r.edit(file, at, at+len(ident.Name), name)
		}
	}
	if !r.shared(obj) || obj.Parent() == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return
	}
	if field, ok := obj.(*types.Var); ok && field.IsField() {
		return
	}
	from, to := r.newDir(file), r.newDir(declared.file)
	same := from == to && !(strings.HasSuffix(r.files[file].Name.Name, "_test") && !strings.HasSuffix(r.files[declared.file].Name.Name, "_test"))
	importPath := module + "/" + to
	switch {
	case same && qualifier != nil: // the packages have become one
		_, q := r.rel(qualifier.Pos())
		r.edit(file, q, at, "")
	case same:
	case qualifier == nil:
		if info.Defs[ident] == obj {
			return
		}
		pkg := strings.TrimSuffix(r.packageName(declared.file), "_test")
		r.edit(file, at, at, pkg+".")
		r.need(file, importPath, "")
	default:
		pkg := strings.TrimSuffix(r.packageName(declared.file), "_test")
		name := ""
		if q := info.Uses[qualifier].(*types.PkgName); q.Name() != q.Imported().Name() {
			name, pkg = q.Name(), q.Name() // an alias stays
		}
		if pkg != qualifier.Name {
			_, q := r.rel(qualifier.Pos())
			r.edit(file, q, q+len(qualifier.Name), pkg)
		}
		r.need(file, importPath, name)
	}
}

func (r *renamer) need(file, importPath, name string) {
	if r.imports[file] == nil {
		r.imports[file] = map[string]string{}
	}
	r.imports[file][importPath] = name
}

// comments renames what a doc comment begins with.
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

func isWord(text string, at int) bool {
	if at >= len(text) {
		return false
	}
	c, _ := utf8.DecodeRuneInString(text[at:])
	return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_'
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
	moved := map[string]string{} // a place of its own for each, because one may go where another one leaves
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

// rewritten is a Go file after the change.
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

func (r *renamer) newDirOf(dir string) string { return path.Dir(r.newPath(dir + "/x.go")) }

// splits reports whether a file leaves a directory alone.
func (r *renamer) splits(dir string) bool {
	for from, to := range r.table.files {
		if path.Dir(from) == dir && path.Dir(to) != dir {
			return true
		}
	}
	return false
}

// renamedImports changes import paths in a Go file that is not built here.
func (r *renamer) renamedImports(text []byte) []byte {
	for from, to := range r.dirs {
		text = bytes.ReplaceAll(text, []byte(`"`+module+"/"+from+`"`), []byte(`"`+module+"/"+to+`"`))
	}
	return text
}

// namedTest is a test as documents name it, after the directory of its package.
var namedTest = regexp.MustCompile(`([a-z][A-Za-z0-9_/]*) ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)`)

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

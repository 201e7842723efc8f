// Command rename changes the layout and the names of this tree according to a table. The same table can repeat the change on a newer tree. It rewrites
// Go files with the type checker, and paths in all other text files.
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
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"
)

const module = "sluice.dev/sluice"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
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
	names   map[place]string // new names, by the places of their declarations
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

// rel returns the path of a file from the root, "" for a file outside of the tree.
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

// findNames finds the declarations of the names in the table.
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

// qualified returns the names that a table may use for an object.
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

// ownersOf returns the names of a field or an interface's method, qualified by the types of the package's scope that declare it.
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

// newDir returns the directory of a file after the change.
func (r *renamer) newDir(file string) string { return path.Dir(r.newPath(file)) }

// findExports assigns exported names to objects that another package uses after the change.
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

// external reports whether a file of an external test package refers to a file of the package.
func external(from, to *ast.File) bool {
	return from.Name.Name != to.Name.Name && strings.HasSuffix(from.Name.Name, "_test")
}

// shared reports whether code outside of a function can use an object.
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

// rename returns the new name of an object.
func (r *renamer) rename(obj types.Object) string {
	if to := r.names[r.placeOf(obj)]; to != "" {
		return to
	}
	if field, ok := obj.(*types.Var); ok && field.Embedded() { // it has the name of its type
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

// rewriteUses rewrites all names of a package's files, and records their imports.
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

// packageName returns the package clause of a file after the change.
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

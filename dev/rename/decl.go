package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/imports"
)

// moveDecls moves declarations, with their comments, to other files of their packages. It runs before all other changes.
func moveDecls(rows map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if err := moveDecl(name, rows[name]); err != nil {
			return fmt.Errorf("move %s: %w", name, err)
		}
	}
	touched := map[string]bool{}
	for name, to := range rows {
		touched[to] = true
		files, err := filepath.Glob(path.Join(dirOf(name), "*.go"))
		if err != nil {
			return err
		}
		for _, file := range files {
			touched[file] = true
		}
	}
	for file := range touched {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tidy, err := imports.Process(file, text, &imports.Options{Comments: true, TabIndent: true, TabWidth: 8})
		if err != nil {
			return err
		}
		if !bytes.Equal(text, tidy) {
			if err := os.WriteFile(file, tidy, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// dirOf returns the directory of a qualified name.
func dirOf(name string) string {
	dir, base := path.Split(name)
	pkg, _, _ := strings.Cut(base, ".")
	return dir + pkg
}

func moveDecl(name, to string) error {
	dir := dirOf(name)
	wanted := strings.TrimPrefix(name, dir+".")
	files, err := filepath.Glob(path.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if declName(decl) != wanted {
				continue
			}
			from, end := fset.Position(decl.Pos()).Offset, fset.Position(decl.End()).Offset
			if doc := docOf(decl); doc != nil {
				from = fset.Position(doc.Pos()).Offset
			}
			if i := bytes.IndexByte(text[end:], '\n'); i >= 0 {
				end += i + 1 // with the comment after it
			}
			moved := slices.Clone(text[from:end])
			if file == to {
				return nil
			}
			if err := os.WriteFile(file, slices.Concat(text[:from], text[end:]), 0o644); err != nil {
				return err
			}
			into, err := os.ReadFile(to)
			if err != nil {
				into = []byte("package " + f.Name.Name + "\n")
			}
			return os.WriteFile(to, slices.Concat(bytes.TrimRight(into, "\n"), []byte("\n\n"), moved), 0o644)
		}
	}
	return fmt.Errorf("no declaration in %s", dir)
}

func docOf(decl ast.Decl) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// declName returns the name of a declaration, after the name of its receiver; for a group, the first name.
func declName(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		t := d.Recv.List[0].Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		if index, ok := t.(*ast.IndexExpr); ok {
			t = index.X
		}
		if of, ok := t.(*ast.Ident); ok {
			return of.Name + "." + d.Name.Name
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || len(d.Specs) == 0 {
			return ""
		}
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return s.Name.Name
		case *ast.ValueSpec:
			return s.Names[0].Name
		}
	}
	return ""
}

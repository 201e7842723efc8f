package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// testFunc is a test or fuzz function of the tree.
type testFunc struct {
	// module is the directory of the module, "" for the main one; pkg is the directory of the package, from the root of the repository.
	module, pkg, name string
}

func (f testFunc) String() string { return f.pkg + " " + f.name }

// testFuncs returns all test functions below the working directory, sorted.
func testFuncs() ([]testFunc, error) {
	var list []testFunc
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		found, err := testFuncsOf(path)
		list = append(list, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for tests: %w", err)
	}
	slices.SortFunc(list, func(a, b testFunc) int { return strings.Compare(a.String(), b.String()) })
	return list, nil
}

func testFuncsOf(path string) (list []testFunc, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	pkg := filepath.ToSlash(filepath.Dir(path))
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Recv != nil || f.Name.Name == "TestMain" || !isTest(f.Name.Name, "Test") && !isTest(f.Name.Name, "Fuzz") {
			continue
		}
		list = append(list, testFunc{moduleOf(pkg), pkg, f.Name.Name})
	}
	return list, nil
}

// isTest reports whether go test treats a function as a test: the name after the prefix does not begin with a lower-case letter.
func isTest(name, prefix string) bool {
	rest, has := strings.CutPrefix(name, prefix)
	return has && (rest == "" || !unicode.IsLower([]rune(rest)[0]))
}

// moduleOf returns the directory of the module of a package, "" for the main one.
func moduleOf(pkg string) string {
	for dir := pkg; dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return ""
}

// concurrentPackages returns the packages below some directories that start goroutines or share memory between them, sorted.
func concurrentPackages(dirs ...string) (list []string, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			is, err := isConcurrent(path)
			if is {
				list = append(list, filepath.ToSlash(filepath.Dir(path)))
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for what runs at once: %w", err)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func isConcurrent(path string) (is bool, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	for _, i := range file.Imports {
		is = is || i.Path.Value == `"sync"` || i.Path.Value == `"sync/atomic"` || strings.HasPrefix(i.Path.Value, `"golang.org/x/sync/`)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		_, starts := n.(*ast.GoStmt)
		is = is || starts
		return !is
	})
	return is, nil
}

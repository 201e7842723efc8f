package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

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

// table holds the changes.
type table struct {
	dirs    map[string]string // old directory: new one
	files   map[string]string // old file: new one
	symbols map[string]string // old qualified name: new name
	decls   map[string]string // qualified name of a declaration: file
}

// newPath returns the path of a file after the change.
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

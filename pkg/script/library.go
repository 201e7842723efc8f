package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// Library finds scripts by the kind of object that they shape, and keeps what
// it compiled. It is safe for concurrent use.
type Library struct {
	builtin fs.FS
	dir     string

	mu       sync.Mutex
	programs map[[sha256.Size]byte]compiled
}

type compiled struct {
	program *Program
	err     error
}

// maxPrograms bounds the cache; scripts are few, and edited rarely.
const maxPrograms = 256

// NewLibrary serves the scripts of builtin and, if dir is not empty, of a
// directory with the same layout, <group>/<Kind>/trafficRouting.lua. Files of
// the directory are read at each Find, so that an edit counts at once.
func NewLibrary(builtin fs.FS, dir string) *Library {
	return &Library{builtin: builtin, dir: dir, programs: map[[sha256.Size]byte]compiled{}}
}

// ConfigMap is the part of a script ConfigMap that matters here. The zero value
// stands for one that does not exist.
type ConfigMap struct {
	Name     string // namespace/name
	Data     map[string]string
	Override bool // its keys win over the files: annotation sluice.dev/override
}

// Source is a script and where it came from.
type Source struct {
	Origin  string // "built-in", "directory <path>" or "ConfigMap <namespace>/<name>"
	Key     string // the path below lua_configuration, or the key in the ConfigMap
	Hash    string // the first 12 hex digits of the SHA-256 of the text
	Program *Program
}

// GroupKind is a kind of custom resource.
type GroupKind struct{ Group, Kind string }

const keyPrefix = "lua.traffic.routing."

// Key is the key under which a ConfigMap holds the script of a custom resource.
func Key(group, kind string) string { return keyPrefix + kind + "." + group }

// Find returns the script for a kind of custom resource: that of the directory,
// else the built-in one, else the ConfigMap's; with cm.Override the ConfigMap's
// first. A missing script is a *NotFoundError. One that does not compile is an
// *Error that names where it is; what follows in the order is not tried then.
func (l *Library) Find(group, kind string, cm ConfigMap) (Source, error) {
	file := path.Join(group, kind, "trafficRouting.lua")
	if !fs.ValidPath(file) || strings.Count(file, "/") != 2 || strings.ContainsAny(file, "\\:\x00") {
		return Source{}, fmt.Errorf("%q of group %q is no kind that can have a script", kind, group)
	}
	missing := &NotFoundError{Group: group, Kind: kind}
	places := []func() (Source, bool, error){
		func() (Source, bool, error) { return l.fromDirectory(file, missing) },
		func() (Source, bool, error) { return l.fromBuiltin(file, missing) },
		func() (Source, bool, error) { return l.fromConfigMap(Key(group, kind), cm, missing) },
	}
	if cm.Override {
		places = append(places[2:], places[:2]...)
	}
	for _, look := range places {
		if source, found, err := look(); found || err != nil {
			return source, err
		}
	}
	return Source{}, missing
}

// Kinds lists the kinds of custom resources that have a script, or something
// in its place that does not compile.
func (l *Library) Kinds(cm ConfigMap) []GroupKind {
	found := map[GroupKind]bool{}
	for _, tree := range l.trees() {
		// The pattern is a good one; a directory that cannot be read holds none.
		files, _ := fs.Glob(tree, "*/*/trafficRouting.lua")
		for _, file := range files {
			group, name := path.Split(path.Dir(file))
			found[GroupKind{path.Clean(group), name}] = true
		}
	}
	for key := range cm.Data {
		rest, is := strings.CutPrefix(key, keyPrefix)
		name, group, grouped := strings.Cut(rest, ".")
		if is && grouped {
			found[GroupKind{group, name}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b GroupKind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
}

func (l *Library) trees() []fs.FS {
	if l.dir == "" {
		return []fs.FS{l.builtin}
	}
	return []fs.FS{l.builtin, os.DirFS(l.dir)}
}

func (l *Library) fromDirectory(file string, missing *NotFoundError) (Source, bool, error) {
	if l.dir == "" {
		return Source{}, false, nil
	}
	missing.looked = append(missing.looked, fmt.Sprintf("directory %s: %s", l.dir, file))
	text, err := fs.ReadFile(os.DirFS(l.dir), file)
	return l.fromFile("directory "+l.dir, file, text, err)
}

func (l *Library) fromBuiltin(file string, missing *NotFoundError) (Source, bool, error) {
	missing.looked = append(missing.looked, "built-in scripts: "+file)
	text, err := fs.ReadFile(l.builtin, file)
	return l.fromFile("built-in", file, text, err)
}

func (l *Library) fromFile(origin, file string, text []byte, err error) (Source, bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, false, nil
	}
	if err != nil {
		return Source{}, false, fmt.Errorf("read script %s from %s: %w", file, origin, err)
	}
	return l.source(origin, file, string(text))
}

func (l *Library) fromConfigMap(key string, cm ConfigMap, missing *NotFoundError) (Source, bool, error) {
	missing.configMap, missing.key = cm.Name, key
	if cm.Name == "" {
		return Source{}, false, nil
	}
	missing.looked = append(missing.looked, fmt.Sprintf("ConfigMap %s: key %s", cm.Name, key))
	text, ok := cm.Data[key]
	if !ok {
		return Source{}, false, nil
	}
	return l.source("ConfigMap "+cm.Name, key, text)
}

func (l *Library) source(origin, key, text string) (Source, bool, error) {
	sum := sha256.Sum256([]byte(text))
	name := fmt.Sprintf("%s (%s)", key, origin)
	program, err := l.compile(name, text)
	if err != nil {
		return Source{}, false, err
	}
	return Source{Origin: origin, Key: key, Hash: hex.EncodeToString(sum[:6]), Program: program}, true, nil
}

// compile remembers refusals too: a broken script costs its parse once.
func (l *Library) compile(name, text string) (*Program, error) {
	id := sha256.Sum256([]byte(name + "\x00" + text))
	l.mu.Lock()
	known, ok := l.programs[id]
	l.mu.Unlock()
	if ok {
		return known.program, known.err
	}
	program, err := Compile(name, text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.programs) >= maxPrograms {
		clear(l.programs)
	}
	l.programs[id] = compiled{program, err}
	return program, err
}

// NotFoundError lists where a script was looked for.
type NotFoundError struct {
	Group, Kind string

	looked    []string
	configMap string
	key       string
}

func (e *NotFoundError) Error() string {
	where := "ConfigMap " + e.configMap
	if e.configMap == "" {
		where = "the script ConfigMap"
	}
	return fmt.Sprintf("no script for %s of group %s: looked in %s. Add key %s to %s, "+
		"or remove the object from customNetworkRefs", e.Kind, e.Group, strings.Join(e.looked, "; "), e.key, where)
}

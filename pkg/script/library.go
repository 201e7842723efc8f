package script

import (
	"cmp"
	"context"
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

// Library finds scripts by the kind of object that they shape, and caches compiled
// scripts. It is safe for concurrent use.
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

// maxPrograms bounds the cache; scripts are few, and edits are rare.
const maxPrograms = 256

// NewLibrary serves the scripts of builtin and, if dir is not empty, of a directory
// with the same layout, <group>/<Kind>/trafficRouting.lua. Each FindScript reads the
// files of the directory again, so that edits take effect at once.
func NewLibrary(builtin fs.FS, dir string) *Library {
	return &Library{builtin: builtin, dir: dir, programs: map[[sha256.Size]byte]compiled{}}
}

// ConfigMap is the content of a script ConfigMap. The zero value stands for one that
// does not exist.
type ConfigMap struct {
	Name     string // namespace/name
	Data     map[string]string
	Override bool // its keys override the files: annotation sluice.dev/override
}

// Source is a script and its origin.
type Source struct {
	Origin  string // "built-in", "directory <path>" or "ConfigMap <namespace>/<name>"
	Key     string // the path below lua_configuration, or the key in the ConfigMap
	Hash    string // the first 12 hex digits of the SHA-256 of the text and of the capabilities
	Program *Program
	// Capabilities are the features that the kind supports; nil if the script has
	// none.
	Capabilities *Capabilities
}

// Render runs the script for a step that its kind can express.
func (s Source) Render(ctx context.Context, in Input, limits Limits) (Output, error) {
	in, err := s.prepareInput(in)
	if err != nil {
		return Output{}, err
	}
	out, err := s.Program.Render(ctx, in, limits)
	if err != nil {
		return Output{}, err
	}
	for _, object := range out.Create {
		if of := (GroupVersionKind{stringOf(object["apiVersion"]), stringOf(object["kind"])}); !s.Capabilities.mayCreate(of) {
			return Output{}, fmt.Errorf("the script makes a %s of %s, which is not among what its capabilities say that it creates; add it there, or mend the script", of.Kind, of.APIVersion)
		}
	}
	if s.Capabilities != nil {
		out.WeightSum = s.Capabilities.WeightSum
	}
	return out, nil
}

// prepareInput returns the input of the script for a step, or the reason why the
// kind cannot express the step.
func (s Source) prepareInput(in Input) (Input, error) {
	if why := s.Capabilities.StepRefusal(in); why != "" {
		return in, errors.New(why)
	}
	if s.Capabilities != nil {
		in.Tells = s.Capabilities.Tells
	}
	return in, nil
}

func (c *Capabilities) mayCreate(of GroupVersionKind) bool {
	return c != nil && slices.Contains(c.Creates, of)
}

// GroupKind is a kind of custom resource.
type GroupKind struct{ Group, Kind string }

const (
	keyPrefix          = "lua.traffic.routing."
	capabilitiesPrefix = "capabilities.traffic.routing."
	ingressPrefix      = "ingress."
	ingressDirectory   = "trafficrouting_ingress"
)

// IngressKind is the kind whose scripts are found by their class, with [Library.FindIngress].
func IngressKind() GroupKind { return GroupKind{"networking.k8s.io", "Ingress"} }

// ConfigMapKey is the key of a ConfigMap with the script of a custom resource.
func ConfigMapKey(group, kind string) string { return keyPrefix + kind + "." + group }

// FindScript returns the script for a kind of custom resource. It looks in the
// directory, then in the built-in scripts, then in the ConfigMap; with cm.Override
// in the ConfigMap first. A missing script is a *NotFoundError. A script that does
// not compile is an *Error that names its place, and FindScript does not look
// further then.
func (l *Library) FindScript(group, kind string, cm ConfigMap) (Source, error) {
	file := path.Join(group, kind, "trafficRouting.lua")
	if !fs.ValidPath(file) || strings.Count(file, "/") != 2 || strings.ContainsAny(file, "\\:\x00") {
		return Source{}, fmt.Errorf("%q of group %q is no kind that can have a script", kind, group)
	}
	missing := &NotFoundError{Group: group, Kind: kind}
	beside := path.Join(group, kind, "capabilities.yaml")
	files := []lookup{
		func() (Source, bool, error) { return l.fromDirectory(file, beside, missing) },
		func() (Source, bool, error) { return l.fromBuiltin(file, beside, missing) },
	}
	own := []lookup{func() (Source, bool, error) { return l.fromConfigMap(ConfigMapKey(group, kind), cm, missing) }}
	if cm.Override {
		return firstFound(missing, own, files)
	}
	return firstFound(missing, files, own)
}

// FindIngress returns the script for a class of Ingresses. It looks in the
// ConfigMap, then in the directory, then in the built-in scripts. It returns the
// same errors as [Library.FindScript].
func (l *Library) FindIngress(class string, cm ConfigMap) (Source, error) {
	file := path.Join(ingressDirectory, class+".lua")
	if !fs.ValidPath(file) || strings.Count(file, "/") != 1 || strings.ContainsAny(file, "\\:\x00") {
		return Source{}, fmt.Errorf("%q is no class of Ingresses that can have a script", class)
	}
	missing := &NotFoundError{Class: class}
	beside := path.Join(ingressDirectory, class+".capabilities.yaml")
	return firstFound(missing,
		[]lookup{func() (Source, bool, error) { return l.fromConfigMap(keyPrefix+ingressPrefix+class, cm, missing) }},
		[]lookup{
			func() (Source, bool, error) { return l.fromDirectory(file, beside, missing) },
			func() (Source, bool, error) { return l.fromBuiltin(file, beside, missing) },
		})
}

// lookup looks for a script in one place.
type lookup func() (source Source, found bool, err error)

// firstFound returns the first script that it finds.
func firstFound(missing *NotFoundError, places ...[]lookup) (Source, error) {
	for _, look := range slices.Concat(places...) {
		if source, found, err := look(); found || err != nil {
			return source, err
		}
	}
	return Source{}, missing
}

// ListKinds lists the kinds of custom resources that have a script, even one that
// does not compile. It does not list [IngressKind].
func (l *Library) ListKinds(cm ConfigMap) []GroupKind {
	found := map[GroupKind]bool{}
	for _, tree := range l.scriptTrees() {
		// The pattern is valid; an unreadable directory counts as empty.
		files, _ := fs.Glob(tree, "*/*/trafficRouting.lua")
		for _, file := range files {
			group, name := path.Split(path.Dir(file))
			found[GroupKind{path.Clean(group), name}] = true
		}
	}
	for key := range cm.Data {
		rest, is := strings.CutPrefix(key, keyPrefix)
		name, group, grouped := strings.Cut(rest, ".")
		if is && grouped && !strings.HasPrefix(rest, ingressPrefix) {
			found[GroupKind{group, name}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b GroupKind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
}

// CreatedKinds lists the kinds of objects that any script may create. The scripts of
// Ingress classes create Ingresses.
func (l *Library) CreatedKinds(cm ConfigMap) []GroupVersionKind {
	all := []GroupVersionKind{{IngressKind().Group + "/v1", IngressKind().Kind}}
	for _, said := range l.CapabilitiesByKind(cm) {
		for _, made := range said.Creates {
			if !slices.Contains(all, made) {
				all = append(all, made)
			}
		}
	}
	return slices.SortedFunc(slices.Values(all), func(a, b GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind))
	})
}

// CapabilitiesByKind returns the capabilities of the scripts of [Library.ListKinds].
// It leaves out scripts that have none, or do not compile.
func (l *Library) CapabilitiesByKind(cm ConfigMap) map[GroupKind]*Capabilities {
	said := map[GroupKind]*Capabilities{}
	for _, kind := range l.ListKinds(cm) {
		if source, err := l.FindScript(kind.Group, kind.Kind, cm); err == nil && source.Capabilities != nil {
			said[kind] = source.Capabilities
		}
	}
	return said
}

func (l *Library) scriptTrees() []fs.FS {
	if l.dir == "" {
		return []fs.FS{l.builtin}
	}
	return []fs.FS{l.builtin, os.DirFS(l.dir)}
}

func (l *Library) fromDirectory(file, beside string, missing *NotFoundError) (Source, bool, error) {
	if l.dir == "" {
		return Source{}, false, nil
	}
	missing.looked = append(missing.looked, fmt.Sprintf("directory %s: %s", l.dir, file))
	return l.fromTree("directory "+l.dir, os.DirFS(l.dir), file, beside)
}

func (l *Library) fromBuiltin(file, beside string, missing *NotFoundError) (Source, bool, error) {
	missing.looked = append(missing.looked, "built-in scripts: "+file)
	return l.fromTree("built-in", l.builtin, file, beside)
}

// fromTree reads a script and the capabilities of its kind.
func (l *Library) fromTree(origin string, tree fs.FS, file, beside string) (Source, bool, error) {
	text, found, err := readScript(origin, tree, file)
	if !found || err != nil {
		return Source{}, false, err
	}
	about, told, err := readScript(origin, tree, beside)
	if err != nil {
		return Source{}, false, err
	}
	return l.newSource(origin, file, string(text), string(about), told)
}

func readScript(origin string, tree fs.FS, file string) (text []byte, found bool, err error) {
	text, err = fs.ReadFile(tree, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s from %s: %w", file, origin, err)
	}
	return text, true, nil
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
	about, told := cm.Data[capabilitiesPrefix+strings.TrimPrefix(key, keyPrefix)]
	return l.newSource("ConfigMap "+cm.Name, key, text, about, told)
}

// newSource returns a script and the capabilities of its kind, if it has any.
func (l *Library) newSource(origin, key, text, about string, told bool) (Source, bool, error) {
	sum := sha256.Sum256([]byte(text + about))
	name := fmt.Sprintf("%s (%s)", key, origin)
	program, err := l.compileCached(name, text)
	if err != nil {
		return Source{}, false, err
	}
	s := Source{Origin: origin, Key: key, Hash: hex.EncodeToString(sum[:6]), Program: program}
	if told {
		if s.Capabilities, err = ParseCapabilities([]byte(about)); err != nil {
			return Source{}, false, fmt.Errorf("beside script %s: %w", name, err)
		}
	}
	return s, true, nil
}

// compileCached also caches errors, so that a broken script is parsed only once.
func (l *Library) compileCached(name, text string) (*Program, error) {
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

// NotFoundError lists the places that were searched for a script. For a kind that no
// script can serve, it names a kind to use instead.
type NotFoundError struct {
	Group, Kind string
	// Class is the class of an Ingress, which has no Group and Kind here.
	Class string

	looked    []string
	configMap string
	key       string
}

// IsUnsupported reports whether no script can serve the kind, or the class.
func (e *NotFoundError) IsUnsupported() bool {
	_, ok := unsupportedKinds[e.unsupportedKey()]
	return ok
}

// unsupportedKey is the key of the kind, or of the class, in [unsupportedKinds].
func (e *NotFoundError) unsupportedKey() GroupKind {
	if e.Class != "" {
		return GroupKind{e.Class, "ingress"}
	}
	return GroupKind{e.Group, e.Kind}
}

func (e *NotFoundError) Error() string {
	if u, ok := unsupportedKinds[e.unsupportedKey()]; ok {
		what := fmt.Sprintf("%s of group %s", e.Kind, e.Group)
		if e.Class != "" {
			what = "Ingress of class " + e.Class
		}
		return fmt.Sprintf("%s cannot share traffic between versions: %s; %s", what, u.why, u.instead)
	}
	where := "ConfigMap " + e.configMap
	if e.configMap == "" {
		where = "the script ConfigMap"
	}
	if e.Class != "" {
		add := "Add"
		if instead := insteadOf(controllersOf(IngressClass{Name: e.Class}, nil)); instead != "" {
			add = strings.ToUpper(instead[:1]) + instead[1:] + "; or add"
		}
		return fmt.Sprintf("no script for the Ingress class %s: looked in %s. %s key %s to %s, or correct classType, which has a script for nginx, higress, mse and aliyun-alb",
			e.Class, strings.Join(e.looked, "; "), add, e.key, where)
	}
	return fmt.Sprintf("no script for %s of group %s: looked in %s. Add key %s to %s, "+
		"or remove the object from customNetworkRefs", e.Kind, e.Group, strings.Join(e.looked, "; "), e.key, where)
}

package script

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const dockFile = "port.example.com/Dock/trafficRouting.lua"

func aTree(source string) fstest.MapFS {
	return fstest.MapFS{dockFile: &fstest.MapFile{Data: []byte(source)}}
}

func aDirectory(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, dockFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func aConfigMap(source string) ConfigMap {
	return ConfigMap{Name: "kruise-rollout/kruise-rollout-configuration",
		Data: map[string]string{"lua.traffic.routing.Dock.port.example.com": source}}
}

func TestWhichScriptIsUsed(t *testing.T) {
	builtin, dir, configured := aTree(`return "built-in"`), aDirectory(t, `return "directory"`), aConfigMap(`return "configured"`)
	overriding := configured
	overriding.Override = true
	for name, c := range map[string]struct {
		library *Library
		cm      ConfigMap
		want    string
		origin  string
	}{
		"built-in before ConfigMap":           {NewLibrary(builtin, ""), configured, "built-in", "built-in"},
		"directory before built-in":           {NewLibrary(builtin, dir), configured, "directory", "directory " + dir},
		"ConfigMap when there is no file":     {NewLibrary(fstest.MapFS{}, ""), configured, "configured", "ConfigMap " + configured.Name},
		"overriding ConfigMap before files":   {NewLibrary(builtin, dir), overriding, "configured", "ConfigMap " + configured.Name},
		"overriding ConfigMap without key":    {NewLibrary(builtin, ""), ConfigMap{Name: "a/b", Override: true}, "built-in", "built-in"},
		"built-in when there is no ConfigMap": {NewLibrary(builtin, ""), ConfigMap{}, "built-in", "built-in"},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := c.library.FindScript("port.example.com", "Dock", c.cm)
			if err != nil {
				t.Fatal(err)
			}
			got, err := source.Program.Run(t.Context(), nil, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{c.want, c.origin, 12}, []any{got, source.Origin, len(source.Hash)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhichKindsHaveAScript(t *testing.T) {
	builtin := fstest.MapFS{"port.example.com/Crane/trafficRouting.lua": {}, "port.example.com/README.md": {}, "port.example.com/Ship/testdata/a.yaml": {}}
	configured := aConfigMap("")
	configured.Data["lua.traffic.routing.ingress"], configured.Data["other.Lane.example.com"] = "", ""
	configured.Data["lua.traffic.routing.Lane.example.com"] = "("
	crane, dock, lane := GroupKind{"port.example.com", "Crane"}, GroupKind{"port.example.com", "Dock"}, GroupKind{"example.com", "Lane"}
	for name, c := range map[string]struct {
		library *Library
		cm      ConfigMap
		want    []GroupKind
	}{
		"built-in":                          {NewLibrary(builtin, ""), ConfigMap{}, []GroupKind{crane}},
		"in a directory":                    {NewLibrary(builtin, aDirectory(t, "")), ConfigMap{}, []GroupKind{crane, dock}},
		"in a directory that is not there":  {NewLibrary(builtin, filepath.Join(t.TempDir(), "none")), ConfigMap{}, []GroupKind{crane}},
		"in a ConfigMap, even a broken one": {NewLibrary(builtin, ""), configured, []GroupKind{lane, crane, dock}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.library.ListKinds(c.cm)); diff != "" {
				t.Errorf("kinds (-want +got)\n%s", diff)
			}
		})
	}
}

func TestMissingScriptSaysWhereItLookedAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	_, err := NewLibrary(fstest.MapFS{}, dir).FindScript("port.example.com", "Dock", ConfigMap{Name: "ns/cm"})
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
	for _, part := range []string{
		"directory " + dir + ": " + dockFile, "built-in scripts: " + dockFile,
		"ConfigMap ns/cm: key lua.traffic.routing.Dock.port.example.com",
		"Add key lua.traffic.routing.Dock.port.example.com to ConfigMap ns/cm",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestKindsCannotLeaveTheirDirectory(t *testing.T) {
	for _, group := range []string{"..", ".", "a/b", "/etc", "", "a\\b"} {
		if _, err := NewLibrary(fstest.MapFS{}, "/").FindScript(group, "Kind", ConfigMap{}); err == nil || errors.As(err, new(*NotFoundError)) {
			t.Errorf("group %q: got %v, want a refusal", group, err)
		}
	}
}

// The script as printed in OpenKruise's documentation, with its unclosed quote.
const damaged = `local spec = obj.data.spec
local canary = {}
canary.labels = {}
canary.name = "canary"
local podLabelKey = "istio.service.tag"
canary.labels[podLabelKey] = "gray
table.insert(spec.subsets, canary)
return obj.data
`

func TestDamagedScriptNamesItsKeyAndLineAndHarmsNoOther(t *testing.T) {
	library := NewLibrary(fstest.MapFS{}, "")
	cm := aConfigMap(damaged)
	cm.Data["lua.traffic.routing.Pier.port.example.com"] = `return obj`
	for range 2 {
		_, err := library.FindScript("port.example.com", "Dock", cm)
		want := &Error{
			Script:  "lua.traffic.routing.Dock.port.example.com (ConfigMap kruise-rollout/kruise-rollout-configuration)",
			Line:    6,
			Kind:    KindSyntax,
			Message: "unterminated string near 'gray'",
		}
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Fatal(diff)
		}
	}
	if _, err := library.FindScript("port.example.com", "Pier", cm); err != nil {
		t.Error(err)
	}
}

func TestLibraryCompilesOnceAndServesManyAtOnce(t *testing.T) {
	library := NewLibrary(aTree(`obj.n = obj.n + 1 return obj.n`), "")
	first, err := library.FindScript("port.example.com", "Dock", ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 20 {
				s, err := library.FindScript("port.example.com", "Dock", ConfigMap{})
				if err != nil || s.Program != first.Program {
					t.Errorf("got %v %v, want the same program", s, err)
					return
				}
				got, err := s.Program.Run(t.Context(), map[string]any{"n": int64(i)}, Limits{})
				if err != nil || got != int64(i+1) {
					t.Errorf("got %v %v, want %d", got, err, i+1)
				}
			}
		})
	}
	wg.Wait()
}

func TestEditedFileCountsAtOnce(t *testing.T) {
	dir := aDirectory(t, `return 1`)
	library := NewLibrary(fstest.MapFS{}, dir)
	before, err := library.FindScript("port.example.com", "Dock", ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, dockFile), []byte(`return 2`), 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := library.FindScript("port.example.com", "Dock", ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	if before.Hash == after.Hash || before.Program == after.Program {
		t.Error("the edit does not count")
	}
}

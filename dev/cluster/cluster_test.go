package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		wants string // part of the error; empty for no error
	}{
		"a directory is enough":                  {args: []string{"--dir", "d"}},
		"without a directory it says which flag": {args: nil, wants: "--dir"},
		"a second path after --crds is refused":  {args: []string{"--dir", "d", "--crds", "a", "b"}, wants: `"b" is no flag`},
	} {
		t.Run(name, func(t *testing.T) {
			opts, err := parseOptions(test.args)
			if test.wants == "" {
				if err != nil || !filepath.IsAbs(opts.dir) {
					t.Errorf("parseOptions(%q) returned the directory %q and %v", test.args, opts.dir, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wants) {
				t.Errorf("parseOptions(%q) returned %v, which does not say %q", test.args, err, test.wants)
			}
		})
	}
}

func TestCRDsAreReadFromFilesAndDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const two = "# about both\n---\nkind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: CustomResourceDefinition\nmetadata: {name: b}\n"
	file := write("two.yaml", two)
	write("notes.txt", "no YAML: {")
	for _, paths := range [][]string{{file}, {dir}} {
		crds, err := readCRDs(paths)
		if err != nil || len(crds) != 2 || crds[0].Name != "a" || crds[1].Name != "b" {
			t.Errorf("readCRDs(%q) returned %d definitions and %v", paths, len(crds), err)
		}
	}
	other := write("service.yaml", "kind: Service\nmetadata: {name: a}\n")
	if _, err := readCRDs([]string{other}); err == nil || !strings.Contains(err.Error(), "Service") {
		t.Errorf("a Service among the definitions was answered with %v", err)
	}
}

// TestBuildSaysWhatIsMissing runs the build script on a simulated machine.
func TestBuildSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct{ goSays, wants string }{
		"no Go":             {"", "Go is missing. Install Go 1.26 or later"},
		"Go is too old":     {"echo go1.22.3", "This is go1.22.3; Go 1.26 or later is needed"},
		"Go does not work":  {"echo broken >&2; exit 1", "Go does not work here, or is older than 1.26: broken"},
		"the disk is small": {`case $2 in GOVERSION) echo go1.26.0;; *) echo "$PLACE";; esac`, "MB free and the build needs"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tools := filepath.Join(root, "tools")
			script := filepath.Join(root, "dev", "cluster", "build")
			text, err := os.ReadFile("build")
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{
				script:                     string(text),
				filepath.Join(tools, "df"): "#!/bin/sh\necho head\necho x 9 9 1024 9 /\n",
			}
			if test.goSays != "" {
				files[filepath.Join(tools, "go")] = "#!/bin/sh\n" + test.goSays + "\n"
			}
			for path, text := range files {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command("/bin/sh", script)
			command.Env = []string{"PATH=" + tools + ":/usr/bin:/bin", "PLACE=" + root}
			out, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.wants) {
				t.Errorf("the build ended with %v and said %q, without %q", err, out, test.wants)
			}
		})
	}
}

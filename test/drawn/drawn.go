// Package drawn compares what commands draw with the expected texts in testdata. It is for the tests of packages that draw text.
package drawn

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

// Case takes the files of an archive in their order. It keeps the content of an input, and returns false. For an expected text, it returns what is drawn under
// this name.
type Case func(name string, content []byte) (text string, expected bool)

// Cases plays each archive testdata/*.txtar as a subtest. With the flag -update, it writes what is drawn into the archives.
func Cases(t *testing.T, newCase func(*testing.T) Case) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			draw := newCase(t)
			for i, f := range archive.Files {
				text, expected := draw(f.Name, f.Data)
				switch {
				case !expected:
				case *update:
					archive.Files[i].Data = []byte(text)
				default:
					if diff := cmp.Diff(string(f.Data), text); diff != "" {
						t.Errorf("%s (-want +got):\n%s", f.Name, diff)
					}
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

package scenario

import (
	"path/filepath"
	"testing"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// Each folder of examples/seeds applies as a whole, by a server that refuses fields it does not know.
func TestEveryManifestOfTheSeedsAppliesStrictly(t *testing.T) {
	t.Parallel()
	w := world.Shared(t)
	for _, ns := range []string{"foo", api.ScriptNamespace} {
		if _, err := w.Kubectl(t.Context(), "get", "namespace", ns); err != nil {
			w.Do(t, "create", "namespace", ns)
		}
	}
	files, err := filepath.Glob(filepath.Join(world.Root(), "examples/seeds/*/*.yaml"))
	if err != nil || len(files) < 9 {
		t.Fatalf("examples/seeds holds %d manifests: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+" "+filepath.Base(file), func(t *testing.T) {
			w.Do(t, "apply", "--dry-run=server", "--validate=strict", "-f", file)
		})
	}
}

package matrix

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
)

var manifestDir = flag.String("matrix.manifests", "", "the directory to write the manifests of each column to, for sluice plan; nothing is played then")

// writeManifests writes one file for each column, with the objects that exist when its cells begin.
func writeManifests(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range columns() {
		all := []string{serviceManifest, c.workloadManifest(replicas), c.rolloutManifest(threeSteps())}
		for _, o := range c.routeObjects() {
			all = append(all, o.manifest)
		}
		if err := os.WriteFile(filepath.Join(dir, c.name+".yaml"), []byte(strings.Join(all, "---\n")), 0o644); err != nil {
			return err
		}
	}
	return nil
}

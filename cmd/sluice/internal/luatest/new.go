package luatest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed skeleton
var skeleton embed.FS

var (
	kindName  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	groupName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
)

// NewScript creates a script for a kind of gateway object below a directory, its capabilities, and a test case that passes. It returns the files. If one of
// them exists, it writes nothing.
func NewScript(dir, group, kind string) ([]string, error) {
	if !groupName.MatchString(group) {
		return nil, fmt.Errorf("%q is no API group; give the group without its version, as in: sluice lua new apisix.apache.org ApisixRoute", group)
	}
	if !kindName.MatchString(kind) {
		return nil, fmt.Errorf("%q is no kind; kinds begin with a capital letter, as in: sluice lua new apisix.apache.org ApisixRoute", kind)
	}
	home := filepath.Join(dir, group, kind)
	files := []struct{ name, from string }{
		{filepath.Join(home, scriptFile), "skeleton/trafficRouting.lua"},
		{filepath.Join(home, capabilitiesFile), "skeleton/capabilities.yaml"},
		{filepath.Join(home, "testdata", "weights.yaml"), "skeleton/weights.yaml"},
	}
	for _, f := range files {
		if _, err := os.Stat(f.name); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists, and is left alone; remove it, or choose another --dir", f.name)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, "testdata"), 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	fill := strings.NewReplacer("GROUP", group, "KIND", kind, "HOME", filepath.ToSlash(home))
	var written []string
	for _, f := range files {
		text, err := skeleton.ReadFile(f.from)
		if err != nil {
			return written, fmt.Errorf("read skeleton: %w", err)
		}
		if err := os.WriteFile(f.name, []byte(fill.Replace(string(text))), 0o644); err != nil {
			return written, fmt.Errorf("write skeleton: %w", err)
		}
		written = append(written, f.name)
	}
	return written, nil
}

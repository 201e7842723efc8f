package luatest

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// FileStates returns a fingerprint of the files below a directory, from their names, sizes and times.
func FileStates(dir string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil // the file was deleted meanwhile, and the next fingerprint omits it
		}
		fmt.Fprintln(&all, name, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("watch %s: %w", dir, err)
	}
	return all.String(), nil
}

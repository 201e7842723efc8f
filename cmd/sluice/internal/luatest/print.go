package luatest

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// FileStates tells apart the states of the files below a directory, by their names, sizes and times.
func FileStates(dir string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil // it went meanwhile, and is not in the next look
		}
		fmt.Fprintln(&all, name, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("watch %s: %w", dir, err)
	}
	return all.String(), nil
}

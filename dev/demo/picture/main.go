// Command picture draws an excerpt of the demo as a terminal window, for the README: docs/images/demo-light.svg and demo-dark.svg. It does not record: it reads
// dev/demo/recording.txt, which a test of the demo records and compares with the transcript. Its one invariant: the same recording gives the same bytes. Run it
// in the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	recording = "dev/demo/recording.txt"
	images    = "docs/images"
)

func main() {
	if err := writePictures(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func writePictures() error {
	pictures, err := drawPictures()
	if err != nil {
		return err
	}
	for path, svg := range pictures {
		if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
			return fmt.Errorf("write a picture: %w", err)
		}
	}
	return nil
}

// drawPictures returns the text of each picture by its path.
func drawPictures() (map[string]string, error) {
	text, err := os.ReadFile(recording)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	rows, err := excerptRows(string(text), excerpt())
	if err != nil {
		return nil, fmt.Errorf("take an excerpt of %s: %w", recording, err)
	}
	lines := paintRows(rows)
	pictures := map[string]string{}
	for _, t := range []theme{light(), dark()} {
		pictures[filepath.Join(images, "demo-"+t.name+".svg")] = drawWindow(lines, t)
	}
	return pictures, nil
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each relative link of a page leads to a file of the tree. If the link has an anchor, the file has the heading.
func TestEveryLinkOfThePagesHasATarget(t *testing.T) {
	t.Chdir("../..")
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`\]\(([^)\s:#]*)(?:#([^)\s]+))?\)`)
	for _, page := range strings.Fields(string(out)) {
		for _, link := range target.FindAllStringSubmatch(readPage(t, page), -1) {
			file := filepath.Join(filepath.Dir(page), link[1])
			if link[1] == "" {
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, link[1])
			} else if anchor := link[2]; anchor != "" && !slices.Contains(anchors(readPage(t, file)), anchor) {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, anchor, file)
			}
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

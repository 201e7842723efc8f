package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// promisesFile lists the promises of the pages to users, and the tests for them. `suite test` runs each of these tests.
const promisesFile = "docs/testing.md"

// promise is one row of the table.
type promise struct {
	text string
	// section is the link to the promise, relative to docs/. It has an anchor unless the promise is at the beginning of the page.
	section string
	tests   []named
}

// named is a test by its package and its name. A slash and the name of a subtest select only this subtest.
type named struct{ pkg, test string }

var (
	linked = regexp.MustCompile(`\]\(([^)]+)\)`)
	coded  = regexp.MustCompile("`([^` ]+) ([^`]+)`")
)

// readPromises reads the rows of the table under the heading Promises.
func readPromises() ([]promise, error) {
	text, err := os.ReadFile(promisesFile)
	if err != nil {
		return nil, fmt.Errorf("read the promises, which are found from the root of the repository: %w", err)
	}
	_, part, found := strings.Cut(string(text), "\n## Promises\n")
	if !found {
		return nil, fmt.Errorf("read the promises: %s has no heading Promises", promisesFile)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	var list []promise
	for line := range strings.Lines(part) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) != 3 || strings.TrimSpace(cells[0]) == "promise" {
			continue
		}
		link := linked.FindStringSubmatch(cells[1])
		tests := coded.FindAllStringSubmatch(cells[2], -1)
		if link == nil || tests == nil {
			return nil, fmt.Errorf("read the promises: the row %q names no section or no test", strings.TrimSpace(line))
		}
		p := promise{text: strings.TrimSpace(cells[0]), section: link[1]}
		for _, t := range tests {
			p.tests = append(p.tests, named{t[1], t[2]})
		}
		list = append(list, p)
	}
	return list, nil
}

// promised returns the tests of a package in the table of promises, sorted.
func promised(list []promise, pkg string) (tests []string) {
	for _, p := range list {
		for _, t := range p.tests {
			if t.pkg == pkg {
				tests = append(tests, t.test)
			}
		}
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	// A test includes its subtests.
	return slices.DeleteFunc(tests, func(name string) bool {
		test, _, sub := strings.Cut(name, "/")
		return sub && slices.Contains(tests, test)
	})
}

// exactly returns the pattern of go test -run that selects only the given test or subtest.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// anyOf returns the pattern that selects several tests.
func anyOf(tests []string) string {
	patterns := make([]string, len(tests))
	for i, test := range tests {
		patterns[i] = exactly(test)
	}
	return strings.Join(patterns, "|")
}

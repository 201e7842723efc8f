// Command prose measures how plainly comments, pages and messages are written, and fails when they fall below the house style. It
// counts twelve markers of stilted English for each 1,000 words of an area, sentences that are too long, and headings that are
// questions. It judges no grammar.
//
//	go run ./dev/prose              print the table of areas, and fail above a limit
//	go run ./dev/prose -v           print the counts of each file as well, most findings first
//	go run ./dev/prose FILE|DIR...  print each finding of these files as file:line: text
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	verbose := flag.Bool("v", false, "print the counts of each file, most findings first")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: go run ./dev/prose [-v] [FILE|DIR...]\n\n"+
			"Without arguments, print a table of the tree and fail above a limit. With arguments, print each finding of these files.\n\nThe markers:")
		for _, m := range markers {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-28s %s\n", m.name, m.plain)
		}
		fmt.Fprintln(flag.CommandLine.Output(), "\nFlags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	ok, err := run(os.Stdout, flag.Args(), *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether the files keep to the limits. Limits of areas do not apply to files that the caller names: these may have long
// sentences, and no other finding.
func run(out io.Writer, args []string, verbose bool) (bool, error) {
	files, err := listFiles(args)
	if err != nil {
		return false, err
	}
	var reports []*report
	for _, file := range files {
		r, err := readReport(file)
		if err != nil {
			return false, err
		}
		reports = append(reports, r)
	}
	if len(args) > 0 {
		printFindings(out, reports)
	}
	if verbose {
		printFiles(out, reports)
	}
	totals := sumAreas(reports)
	printTable(out, totals)
	if len(args) > 0 {
		return !slices.ContainsFunc(totals, func(t total) bool { return t.markers+t.headings > 0 }), nil
	}
	broken := brokenLimits(totals)
	for _, line := range broken {
		fmt.Fprintln(out, line)
	}
	if len(broken) > 0 {
		fmt.Fprintln(out, "Print each finding of a file or a directory: go run ./dev/prose FILE|DIR...")
	}
	return len(broken) == 0, nil
}

// listFiles returns the Go and Markdown files below the arguments, or those that git knows or would add.
func listFiles(args []string) ([]string, error) {
	var files []string
	if len(args) == 0 {
		out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go", "*.md").Output()
		if err != nil {
			return nil, fmt.Errorf("git ls-files: %w", err)
		}
		for _, file := range strings.Fields(string(out)) {
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	for _, arg := range args {
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !entry.IsDir():
				files = append(files, filepath.ToSlash(path))
			case entry.Name() == "bin" || entry.Name() == ".git":
				return filepath.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		isGo := strings.HasSuffix(file, ".go")
		return !isGo && !strings.HasSuffix(file, ".md") || isGo && strings.Contains(file, "testdata/")
	})
	slices.Sort(files)
	return slices.Compact(files), nil
}

// readReport reads a file and counts its findings.
func readReport(file string) (*report, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return newReport(file, source)
}

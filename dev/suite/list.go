package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Tell how many tests of each package `suite test` and `suite verify` play, and name their stages",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return list(c.OutOrStdout()) },
	}
}

func list(out io.Writer) error {
	quick, err := planOf("test")
	if err != nil {
		return err
	}
	rest, err := planOf("verify")
	if err != nil {
		return err
	}
	all, err := testFuncs()
	if err != nil {
		return err
	}
	type count struct{ all, quick, rest int }
	var total count
	counts := map[string]*count{}
	for _, f := range all {
		c := counts[f.pkg]
		if c == nil {
			c = &count{}
			counts[f.pkg] = c
		}
		for _, c := range []*count{c, &total} {
			c.all++
			if quick.plays(f) {
				c.quick++
			}
			if rest.plays(f) {
				c.rest++
			}
		}
	}
	for _, p := range []plan{quick, rest} {
		fmt.Fprintf(out, "stages of make %s:", p.command)
		for _, s := range p.stages {
			fmt.Fprintf(out, " %q", s.name)
		}
		fmt.Fprintln(out)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "test functions\tmake test\tmake verify\t  package\t")
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(table, "%d\t%d\t%d\t  %s\t\n", counts[pkg].all, counts[pkg].quick, counts[pkg].rest, pkg)
	}
	fmt.Fprintf(table, "%d\t%d\t%d\t  in all\t\n", total.all, total.quick, total.rest)
	return table.Flush()
}

// plays reports whether a stage of the plan runs the test, or subtests of it.
func (p plan) plays(f testFunc) bool {
	return slices.ContainsFunc(p.stages, func(s stage) bool {
		return slices.ContainsFunc(s.jobs, func(j job) bool { return j.plays(f) })
	})
}

func (j job) plays(f testFunc) bool {
	if j.module != f.module {
		return false
	}
	has := false
	for _, pattern := range j.packages {
		without, minus := strings.CutPrefix(pattern, "-")
		if matchesPackage(path.Join(j.module, without), f.pkg) {
			has = !minus
		}
	}
	return has && (j.run == "" || selects(j.run, f.name, true)) && (j.skip == "" || !selects(j.skip, f.name, false))
}

// matchesPackage reports whether a pattern of go test, relative to the root of the repository, matches a package.
func matchesPackage(pattern, pkg string) bool {
	if parent, is := strings.CutSuffix(pattern, "..."); is {
		return parent == "" || pkg+"/" == parent || strings.HasPrefix(pkg, parent)
	}
	return pattern == pkg
}

// selects reports whether a pattern of -run or -skip selects a test function. A part that names subtests selects the function only if partly is set.
func selects(pattern, name string, partly bool) bool {
	return slices.ContainsFunc(alternatives(pattern), func(one string) bool {
		test, _, sub := strings.Cut(one, "/")
		return (partly || !sub) && regexp.MustCompile(test).MatchString(name)
	})
}

// alternatives splits a pattern as go test does: at each bar outside of brackets.
func alternatives(pattern string) (all []string) {
	depth, from := 0, 0
	for i, c := range pattern {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '|':
			if depth == 0 {
				all, from = append(all, pattern[from:i]), i+1
			}
		}
	}
	return append(all, pattern[from:])
}

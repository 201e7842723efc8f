package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// measureScripts runs the benchmark of the script package and reads its results.
func measureScripts(ctx context.Context) ([]Script, error) {
	say("calling the built-in scripts")
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkScript$", "-benchmem", "-benchtime", "0.2s", "-count", "3", "sluice.dev/sluice/pkg/script")
	out, err := command.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("measure scripts: %w\n%s", err, out)
	}
	return parseScripts(out), nil
}

// parseScripts reads lines like
//
//	BenchmarkScript/<name>/<sluice or stock>-2   100   1234 ns/op   567 B/op   8 allocs/op
func parseScripts(out []byte) []Script {
	found := map[string]*Script{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		rest, ok := strings.CutPrefix(lines.Text(), "BenchmarkScript/")
		if !ok || len(fields) < 4 {
			continue
		}
		rest, _, _ = strings.Cut(rest, " ")
		rest, _, _ = strings.Cut(rest, "\t")
		slash := strings.LastIndexByte(rest, '/')
		if slash < 0 {
			continue
		}
		name, way := rest[:slash], rest[slash+1:]
		if found[name] == nil {
			found[name] = &Script{Name: name}
		}
		switch way, _, _ = strings.Cut(way, "-"); way {
		case "sluice":
			found[name].Sluice.lower(costOf(fields))
		case "stock":
			found[name].Stock.lower(costOf(fields))
		}
	}
	var all []Script
	for _, s := range found {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Script) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// lower keeps the lowest cost of several runs, because other load only adds to it.
func (c *Cost) lower(other Cost) {
	if c.Microseconds == 0 || other.Microseconds < c.Microseconds {
		*c = other
	}
}

func costOf(fields []string) Cost {
	var c Cost
	for i := 1; i < len(fields); i++ {
		n, err := strconv.ParseFloat(fields[i-1], 64)
		if err != nil {
			continue
		}
		switch fields[i] {
		case "ns/op":
			c.Microseconds = n / 1000
		case "B/op":
			c.KB = n / 1000
		case "allocs/op":
			c.Allocations = n
		}
	}
	return c
}

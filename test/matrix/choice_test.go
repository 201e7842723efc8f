package matrix

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	all = flag.Bool("matrix.all", false, "play every cell; without it, one of each row, in turn")
	one = flag.Bool("matrix.one", false, "play one cell of each column, each in another row")
)

// partVariable names an environment variable with a number. Each row then plays the cell that many columns after its
// usual one. It is a variable and not a flag, because make verify passes it on to this package.
const partVariable = "SLUICE_MATRIX_PART"

// chosen returns a function that reports, by the numbers of row and column, whether a cell is played: all, one of each
// column, or one of each row. It always includes cells that -run names.
func chosen(t *testing.T) func(row, col int) bool {
	t.Helper()
	part := 0
	if text := os.Getenv(partVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			t.Fatalf("%s=%q is no number from 0 on", partVariable, text)
		}
		part = int(n)
	}
	switch {
	case *one:
		of := oneOfEachColumn(part)
		return func(row, col int) bool { return of[col] == row }
	case *all || strings.Contains(flag.Lookup("test.run").Value.String(), "/"):
		return func(int, int) bool { return true }
	default:
		of, lines, cols := oneOfEachRow(part), rows(), columns()
		return func(row, col int) bool {
			return of[row] == col || slices.Contains(pinned(), lines[row].String()+"/"+cols[col].name)
		}
	}
}

// pinned returns cells that run in addition to one of each row. They depend on the kind of workload more than others,
// and no other test covers them.
func pinned() []string {
	return []string{
		"continuous release/paused at step 2/partition-routed", "continuous release/paused at step 2/statefulset-routed",
		"continuous release/paused at step 2/daemonset-routed", "continuous release/paused at step 2/cloneset-routed",
		"continuous release/paused at step 2/advanced-statefulset-routed", "continuous release/paused at step 2/advanced-daemonset-routed",
		"scaled up/paused at step 2/cloneset-routed", "scaled down/paused at step 2/statefulset-routed",
		"scaled down/paused at step 2/cloneset-routed", "scaled down/paused at step 2/advanced-statefulset-routed",
		"rollback/upgrading step 1/statefulset-routed", "failing version then a good one/upgrading step 1/statefulset-routed",
		"Rollout deleted/paused at step 2/daemonset-routed",
	}
}

func TestEachPinnedCellStands(t *testing.T) {
	t.Parallel()
	stands := map[string]bool{}
	for _, line := range rows() {
		for _, col := range columns() {
			stands[line.String()+"/"+col.name] = reason(line.event, line.at, col) == ""
		}
	}
	for _, name := range pinned() {
		if !stands[name] {
			t.Errorf("there is no cell %s, or it does not stand", name)
		}
	}
}

// oneOfEachRow returns the column that each row plays: one before the column of the row above, or the next one whose
// cell stands. Each part starts one column later.
func oneOfEachRow(part int) []int {
	cols := columns()
	var list []int
	for i, line := range rows() {
		n := (part + (i+1)*(len(cols)-1)) % len(cols)
		for range cols { // the row is skipped at any column if none of its cells stands
			if reason(line.event, line.at, cols[n]) == "" {
				break
			}
			n = (n + 1) % len(cols)
		}
		list = append(list, n)
	}
	return list
}

// oneOfEachColumn returns the row that each column plays. The rows are far from each other, and their cells stand. Each
// part has the next rows.
func oneOfEachColumn(part int) []int {
	lines, cols := rows(), columns()
	alone := slices.DeleteFunc(slices.Clone(cols), func(c column) bool { return c.governed })
	var list []int
	for i, col := range cols {
		n := (i*len(lines)/len(alone) + part) % len(lines)
		for slices.Contains(list, n) || reason(lines[n].event, lines[n].at, col) != "" {
			n = (n + 1) % len(lines)
		}
		if col.governed { // its tests need executors in the process of the test
			n = none
		}
		list = append(list, n)
	}
	return list
}

func TestEachPartPlaysACellOfEachRowAndAllPartsPlayAll(t *testing.T) {
	t.Parallel()
	lines, cols := rows(), columns()
	for i, line := range lines {
		played := map[int]bool{}
		for part := range cols {
			n := oneOfEachRow(part)[i]
			if why := reason(line.event, line.at, cols[n]); why != "" {
				t.Errorf("part %d has a cell of the row %s that does not stand: %s", part, line, why)
			}
			played[n] = true
		}
		for n, col := range cols {
			if stands := reason(line.event, line.at, col) == ""; stands != played[n] {
				t.Errorf("the cell of the row %s and the column %s stands: %t, and is played: %t", line, col.name, stands, played[n])
			}
		}
	}
}

func TestOneOfEachColumnIsAnotherRowThatStands(t *testing.T) {
	t.Parallel()
	lines, cols := rows(), columns()
	for part := range lines {
		taken := map[int]bool{}
		for i, n := range oneOfEachColumn(part) {
			if cols[i].governed {
				continue
			}
			if why := reason(lines[n].event, lines[n].at, cols[i]); why != "" {
				t.Errorf("part %d has a cell of column %s that does not stand: %s", part, cols[i].name, why)
			}
			if taken[n] {
				t.Errorf("part %d has two cells of the row %s", part, lines[n])
			}
			taken[n] = true
		}
	}
}

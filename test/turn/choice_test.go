package turn

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	all = flag.Bool("turn.all", false, "play every cell; without it, one of each row, in turn")
	one = flag.Bool("turn.one", false, "play one cell of each column, each in another row")
)

// partVariable names the environment variable that has a run play other cells than the last one: of each row that of so many columns further.
// It is no flag, so that it reaches this package through make verify.
const partVariable = "SLUICE_TURN_PART"

// chosen returns which cells are played, by the numbers of row and column: all of them, one of each column, or one of each row. A cell that
// -run names is played in any case.
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
		of := oneOfEachRow(part)
		return func(row, col int) bool { return of[row] == col }
	}
}

// oneOfEachRow are the columns of which each row plays one: that before the one of the row above, or the next one whose cell stands. Each
// part has the next ones.
func oneOfEachRow(part int) []int {
	cols := columns()
	var list []int
	for i, line := range rows() {
		n := (part + (i+1)*(len(cols)-1)) % len(cols)
		for reason(line.turn, line.at, cols[n]) != "" {
			n = (n + 1) % len(cols)
		}
		list = append(list, n)
	}
	return list
}

// oneOfEachColumn are the rows of which each column plays one, far from each other and such that the cell stands. Each part has the
// next ones.
func oneOfEachColumn(part int) []int {
	lines, cols := rows(), columns()
	var list []int
	for i, col := range cols {
		n := (i*len(lines)/len(cols) + part) % len(lines)
		for slices.Contains(list, n) || reason(lines[n].turn, lines[n].at, col) != "" {
			n = (n + 1) % len(lines)
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
			if why := reason(line.turn, line.at, cols[n]); why != "" {
				t.Errorf("part %d has a cell of the row %s that does not stand: %s", part, line, why)
			}
			played[n] = true
		}
		for n, col := range cols {
			if stands := reason(line.turn, line.at, col) == ""; stands != played[n] {
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
			if why := reason(lines[n].turn, lines[n].at, cols[i]); why != "" {
				t.Errorf("part %d has a cell of column %s that does not stand: %s", part, cols[i].name, why)
			}
			if taken[n] {
				t.Errorf("part %d has two cells of the row %s", part, lines[n])
			}
			taken[n] = true
		}
	}
}

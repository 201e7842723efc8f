package matrix

import (
	"fmt"
	"strings"
	"testing"
)

// event is one way in which a release can continue, or be interrupted.
type event struct {
	name string
	// meaning is the documented result, for every moment.
	meaning string
	at      []moment
	// made prepares the application. Nil stands for an adopted application that runs its first version.
	made func(*cell)
	// take plays the event from its moment on. It returns the end that the cell must reach.
	take func(*cell, moment) end
	// without is the reason why no column has the event yet.
	without string
}

// events are the rows of the test matrix, in the order of the page.
func events() []event {
	var list []event
	for _, group := range [][]event{
		releases(), rollbacks(), versions(), plans(), pauses(), jumps(), promotions(), aborts(), disablings(), deletions(),
		workloads(), scalings(), podTroubles(), servings(), deadlines(), identities(), batches(),
	} {
		list = append(list, group...)
	}
	return list
}

// row is a row of the test matrix.
type row struct {
	event event
	at    moment
}

func (r row) String() string { return r.event.name + "/" + r.at.name }

// rows returns all rows, in the order of the page.
func rows() (list []row) {
	for _, t := range events() {
		for _, m := range t.at {
			list = append(list, row{t, m})
		}
	}
	return list
}

// TestMatrix plays the cells that stand; docs/test-matrix.md shows the same table. Without -matrix.all it plays one
// column of each row and the pinned cells. A computer with two cores needs seven minutes for these.
func TestMatrix(t *testing.T) {
	is := chosen(t)
	for n, row := range rows() {
		for i, col := range columns() {
			if !is(n, i) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", row, col.name), func(t *testing.T) {
				t.Parallel()
				if why := reason(row.event, row.at, col); why != "" {
					t.Skip(why)
				}
				skipWithoutHub(t, col)
				play(t, row.event, row.at, col)
			})
		}
	}
}

// skipWithoutHub skips a test of a fleet if executors run as processes: these do not know the hub of the test.
func skipWithoutHub(t *testing.T, col column) {
	t.Helper()
	if col.governed && *kill > 0 {
		t.Skip("executors that run as processes have no hub")
	}
}

// reason returns the reason why a cell does not stand, "" if it stands.
func reason(row event, m moment, col column) string {
	if row.without != "" {
		return row.without
	}
	return col.reason(row.name, m.name)
}

func play(t *testing.T, row event, m moment, col column) {
	c := newCell(t, col)
	if row.made != nil {
		row.made(c)
	} else {
		c.adopted()
	}
	m.reach(c)
	c.rests(row.take(c, m))
}

// Names become namespaces and keys of exceptions, so they must be distinct.
func TestEveryCellHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range events() {
		for _, m := range row.at {
			name := row.name + " @ " + m.name
			if seen[name] || strings.ContainsAny(name, ",/|") {
				t.Errorf("the row %q is there twice, or has a character that means something elsewhere", name)
			}
			seen[name] = true
		}
	}
	for _, col := range columns() {
		for key := range col.except {
			row, _, _ := strings.Cut(key, " @ ")
			known := seen[key]
			for name := range seen {
				known = known || strings.HasPrefix(name, row+" @ ") && key == row || strings.HasSuffix(name, " "+key) && strings.HasPrefix(key, "@ ")
			}
			if !known {
				t.Errorf("column %s has an exception for %q, which is no row", col.name, key)
			}
		}
	}
}

package matrix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/test/world"
)

var update = flag.Bool("update", false, "write docs/test-matrix.md")

func TestThePageShowsTheGrid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(world.Root(), "docs/test-matrix.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(body), page()); diff != "" {
		t.Errorf("docs/test-matrix.md is out of date, write it with: go test ./test/matrix -run TestThePage -update (-page +matrix):\n%s", diff)
	}
}

const intro = `# Every event on every strategy and workload

This page is generated from the tests in ` + "`test/matrix`" + `. Each section below is an event. Each row of its
table is a moment of a release, and each column is a style on a kind of workload. A check mark means that the tests play this scenario on a real
control plane, in its own namespace. A number refers to the reasons for missing cells.

- ` + "`go test ./test/matrix -matrix.all -timeout 2h`" + ` plays all cells.
- ` + "`make verify`" + ` plays one cell of each row, and a few fixed cells. ` + "`SLUICE_MATRIX_PART=1 make verify`" + ` plays the next cell of each row.
- With ` + "`-matrix.kill 1s`" + ` each executor runs as a process. The test kills one of them (` + "`kill -9`" + `) every second or two, and every tenth time it
  freezes one instead. Each cell must end in the same way. ` + "`make verify`" + ` plays one cell of each column like this, except for columns in a fleet. A killed executor may leave
  work for the next one. So with this flag, the test tolerates a few more writes after the end.

Each cell ends with the same checks:

- The Rollout is in the phase that the event leads to.
- All pods of the workload run the version that the event leads to.
- The owner's objects are as they were, and no object or field of Sluice is left.
- Executors that reconcile again write nothing.
- Exposure was never above the approved step. A watch on pods and routes checks this during the release, and the API server's audit log afterwards.

Releases have the steps ` + "`%s`" + ` of %d replicas, and each step waits for approval.

Version v1 is stable, and the release of v2 is under way. The column *when* of a table names the moment at which the event comes:

- *initializing*: the owner paused the Rollout before its first step.
- *upgrading*: a new pod of the step is not ready.
- *paused*: the step waits for its approval.
- *finalising*: all steps are approved, and the last pods are not ready.
- *promoted*: a user promoted the release at step 2, and its other pods are not ready.
- *aborted*: a user stopped the release at step 2.
- *finalising without stable pods*, *finalising with some stable pods*: the owner's strategy allows all pods, or half of them, to be missing. The workload's
  controller has deleted that many stable pods, and the new pods are not ready.

`

// page returns the text of docs/test-matrix.md.
func page() string {
	var b strings.Builder
	cols := columns()
	fmt.Fprintf(&b, intro, canaryRouted().steps(threeSteps()), replicas)
	var reasons []string
	var body strings.Builder
	stand, all := 0, 0
	for _, row := range events() {
		fmt.Fprintf(&body, "\n## %s\n\n%s\n\n| when |", row.name, row.meaning)
		for i := range cols {
			fmt.Fprintf(&body, " %c |", 'A'+i)
		}
		body.WriteString("\n|---|" + strings.Repeat(":-:|", len(cols)) + "\n")
		for _, m := range row.at {
			fmt.Fprintf(&body, "| %s |", m.name)
			for _, col := range cols {
				all++
				why := reason(row, m, col)
				if why == "" {
					stand++
					body.WriteString(" ✓ |")
					continue
				}
				if !slices.Contains(reasons, why) {
					reasons = append(reasons, why)
				}
				fmt.Fprintf(&body, " %d |", slices.Index(reasons, why)+1)
			}
			body.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "**%d of %d cells have a check mark.** Each of them passed while the test killed executors, in several runs on different days. The commands above\n"+
		"repeat the tests.\n\n| column | style | workload | traffic |\n|---|---|---|---|\n", stand, all)
	for i, col := range cols {
		fmt.Fprintf(&b, "| %c | %s | %s | %s |\n", 'A'+i, col.strategy, col.workload, col.traffic)
	}
	if len(reasons) > 0 {
		b.WriteString("\nReasons for missing cells:\n\n")
		for i, why := range reasons {
			fmt.Fprintf(&b, "%d. %s\n", i+1, why)
		}
	}
	return b.String() + body.String()
}

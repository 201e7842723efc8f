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

var update = flag.Bool("update", false, "write docs/test-matrix.md anew")

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

This page is generated from the tests in ` + "`test/matrix`" + `: a check mark is a scenario that is played on a real control plane, in a
namespace of its own. A number is the reason why a cell is not there, below. ` + "`go test ./test/matrix -matrix.all -timeout 2h`" + ` plays them all;
` + "`make verify`" + ` plays one of each row, and some pinned ones, and ` + "`SLUICE_MATRIX_PART=1 make verify`" + ` the next one of each. With ` + "`-matrix.kill 1s`" + ` the executors are
processes of which one is killed (` + "`kill -9`" + `) every second or two, and each tenth time one is frozen instead; no cell may end otherwise for it, and
` + "`make verify`" + ` plays one of each column so. Who is killed leaves something for the next one to do: there, looks after the end may write a few times more
before they write nothing.

Each cell ends with the same checks: the Rollout is in the phase that the row says, the workload runs the version that the row says in
all of its pods, objects of the owner are as they were and nothing of ours is left, executors that look again write nothing, and
exposure was never above the approved step, which a watch on pods and routes sees while it lasts and the API server's audit log tells
afterwards. Releases have the steps ` + "`%s`" + ` of %d replicas, and each step waits for approval.

The first version is v1, which runs; v2 is under way. A step is *upgrading* when a new pod is not ready, *paused* when it waits for its
approval. *initializing* is a release whose owner paused the Rollout before its first step, *finalising* one with all steps approved whose
last pods are not ready, *promoted* one that was promoted at step 2 and whose other pods are not ready, *aborted* one that was stopped at step 2.
*Finalising without stable pods* and *with some stable pods* are releases whose workload may take all of its pods, or half of them, before others are ready.

`

// page is docs/test-matrix.md.
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
	fmt.Fprintf(&b, "**%d of %d cells stand.** Each has been played while executors were killed, in several runs and not all of them of the same day: see that they still\n"+
		"stand with the commands above.\n\n| column | strategy | workload | traffic |\n|---|---|---|---|\n", stand, all)
	for i, col := range cols {
		fmt.Fprintf(&b, "| %c | %s | %s | %s |\n", 'A'+i, col.strategy, col.workload, col.traffic)
	}
	if len(reasons) > 0 {
		b.WriteString("\nWhy a cell is not there:\n\n")
		for i, why := range reasons {
			fmt.Fprintf(&b, "%d. %s\n", i+1, why)
		}
	}
	return b.String() + body.String()
}

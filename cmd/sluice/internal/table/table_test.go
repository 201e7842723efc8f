package table_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/cmd/sluice/internal/table"
)

func tableOf(rows ...metav1.TableRow) *metav1.Table {
	return &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "MESSAGE"}, {Name: "Detail", Priority: 1}},
		Rows:              rows,
	}
}

func row(name, version string, message any) metav1.TableRow {
	object := fmt.Sprintf(`{"kind":"PartialObjectMetadata","metadata":{"name":%q,"namespace":"shop","uid":%[1]q,"resourceVersion":%q}}`, name, version)
	return metav1.TableRow{Cells: []any{name, message, "more"}, Object: runtime.RawExtension{Raw: []byte(object)}}
}

func TestTablesArePrintedAsKubectlDoes(t *testing.T) {
	for name, test := range map[string]struct {
		printer table.Printer
		tables  []*metav1.Table
		want    string
	}{
		"nothing for no rows": {tables: []*metav1.Table{tableOf()}},
		"columns of the first priority": {
			tables: []*metav1.Table{tableOf(row("a", "1", "fine"), row("longer", "1", nil))},
			want:   "NAME     MESSAGE\na        fine\nlonger   \n",
		},
		"all columns when wide": {
			printer: table.Printer{Wide: true},
			tables:  []*metav1.Table{tableOf(row("a", "1", "fine"))},
			want:    "NAME   MESSAGE   DETAIL\na      fine      more\n",
		},
		"the namespace when asked for all": {
			printer: table.Printer{Namespaces: true},
			tables:  []*metav1.Table{tableOf(row("a", "1", "fine"))},
			want:    "NAMESPACE   NAME   MESSAGE\nshop        a      fine\n",
		},
		"one line for a message of several": {
			tables: []*metav1.Table{tableOf(row("a", "1", "one\ntwo\tthree"))},
			want:   "NAME   MESSAGE\na      one two three\n",
		},
		"later only what changed": {
			tables: []*metav1.Table{
				tableOf(row("a", "1", "fine"), row("b", "1", "fine")),
				tableOf(row("a", "1", "fine"), row("b", "2", "held")),
				tableOf(row("a", "1", "fine"), row("b", "2", "held")),
			},
			want: "NAME   MESSAGE\na      fine\nb      fine\nb     held\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			test.printer.Out = &out
			for _, table := range test.tables {
				if err := test.printer.PrintRows(table); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

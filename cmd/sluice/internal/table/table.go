// Package table prints tables of the API server as kubectl prints them. It knows nothing of their content. Its one invariant: it prints a row again only after
// its object has changed.
package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Printer prints successive tables, each time only the new rows.
type Printer struct {
	Out io.Writer
	// Wide also prints columns of lower priority, and Namespaces the namespace of each object.
	Wide, Namespaces bool

	printed map[string]string // resourceVersion of each row by UID
}

// Empty reports whether no row has been printed.
func (p *Printer) Empty() bool { return len(p.printed) == 0 }

// PrintRows prints new and changed rows. Before the first row it prints the names of the columns.
func (p *Printer) PrintRows(t *metav1.Table) error {
	var rows [][]string
	first := p.Empty()
	if first {
		p.printed = map[string]string{}
	}
	for _, row := range t.Rows {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
			return fmt.Errorf("read row of table: %w", err)
		}
		if p.printed[string(object.UID)] == object.ResourceVersion {
			continue
		}
		p.printed[string(object.UID)] = object.ResourceVersion
		rows = append(rows, p.rowCells(t, row, object.Namespace))
	}
	if len(rows) == 0 {
		return nil
	}
	if first {
		rows = append([][]string{p.headerCells(t)}, rows...)
	}
	w := tabwriter.NewWriter(p.Out, 6, 4, 3, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func (p *Printer) headerCells(t *metav1.Table) []string {
	var names []string
	if p.Namespaces {
		names = append(names, "NAMESPACE")
	}
	for _, column := range t.ColumnDefinitions {
		if column.Priority == 0 || p.Wide {
			names = append(names, strings.ToUpper(column.Name))
		}
	}
	return names
}

func (p *Printer) rowCells(t *metav1.Table, row metav1.TableRow, namespace string) []string {
	var cells []string
	if p.Namespaces {
		cells = append(cells, namespace)
	}
	for i, column := range t.ColumnDefinitions {
		if column.Priority != 0 && !p.Wide || i >= len(row.Cells) {
			continue
		}
		text := ""
		if row.Cells[i] != nil {
			text = strings.NewReplacer("\n", " ", "\t", " ").Replace(fmt.Sprint(row.Cells[i]))
		}
		cells = append(cells, text)
	}
	return cells
}

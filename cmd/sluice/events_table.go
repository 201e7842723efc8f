package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/event"
)

// eventPrinter prints events one after the other.
type eventPrinter struct {
	event func(event.Event) error
	end   func() error
}

func (c *cli) eventPrinter(o eventsOptions) (eventPrinter, error) {
	none := func() error { return nil }
	switch o.output {
	case "json":
		return eventPrinter{func(e event.Event) error { return json.NewEncoder(c.out).Encode(e) }, none}, nil
	case "yaml":
		return eventPrinter{func(e event.Event) error {
			text, err := yaml.Marshal(e)
			if err != nil {
				return fmt.Errorf("write event %s: %w", e.ID(), err)
			}
			_, err = fmt.Fprintf(c.out, "---\n%s", text)
			return err
		}, none}, nil
	}
	t := &eventTable{out: c.out, header: []string{"TIME", "ROLLOUT", "TYPE", "STEP", "ACTOR", "MESSAGE"}}
	if o.fleet {
		t.header[1], t.header[3] = "FLEETROLLOUT", "WAVE"
	}
	if o.output == "wide" {
		t.header = append([]string{"CLUSTER"}, append(t.header[:5:5], "REASON", "ID", "MESSAGE")...)
	}
	if o.spaces {
		t.header = append([]string{"NAMESPACE"}, t.header...)
	}
	if o.watch {
		// Later events are not known yet, so the columns have room for most values.
		t.widths = map[string]int{"ROLLOUT": 16, "TYPE": 18, "STEP": 4, "WAVE": 4, "FLEETROLLOUT": 16, "ACTOR": 14, "REASON": 14}
	}
	return eventPrinter{func(e event.Event) error {
		t.addRow(eventCells(e, t.header)...)
		if o.watch {
			return t.flushRows()
		}
		return nil
	}, t.flushRows}, nil
}

// eventCells returns the values of the columns.
func eventCells(e event.Event, columns []string) (cells []string) {
	about, err := event.ParseSource(e.Source())
	if err != nil {
		about.Name = e.Source()
	}
	var d event.Data
	step := ""
	if e.Type() == event.TypeDecided {
		d, step = decidedCells(e)
	} else if m, err := event.ParseMeasured(e); err == nil {
		d = event.Data{Step: m.Step, Reason: m.Reason, Message: fmt.Sprintf("%s: %s. %s", m.Metric, m.Outcome, m.Message)}
	} else if err := json.Unmarshal(e.Data(), &d); err != nil {
		d.Message = fmt.Sprintf("(the data cannot be read: %v)", err)
	}
	if s := d.Step; s != nil {
		step = numberOf(s.Index, s.Of)
	}
	wave := ""
	if w := waveOfEvent(e); w != nil {
		wave = numberOf(w.Index, w.Of)
	}
	values := map[string]string{
		"TIME": e.Time().UTC().Format(time.RFC3339), "CLUSTER": about.Cluster, "NAMESPACE": about.Namespace, "ROLLOUT": about.Name, "FLEETROLLOUT": about.Name,
		"TYPE": strings.TrimSuffix(strings.TrimPrefix(e.Type(), "dev.sluice."), ".v1"), "STEP": step, "WAVE": wave,
		"ACTOR": actorText(d), "REASON": d.Reason, "ID": e.ID(), "MESSAGE": d.Message,
	}
	for _, column := range columns {
		cells = append(cells, cmp.Or(oneLine(values[column]), "-"))
	}
	return cells
}

// numberOf writes the number of a step or a wave, with how many there are if that is known.
func numberOf(index, of int32) string {
	if of == 0 {
		return fmt.Sprint(index)
	}
	return fmt.Sprintf("%d/%d", index, of)
}

// waveOfEvent returns the wave of an event of a fleet, nil for none.
func waveOfEvent(e event.Event) *event.FleetWave {
	var d event.FleetData
	if !strings.HasPrefix(e.Type(), "dev.sluice.fleet.") || json.Unmarshal(e.Data(), &d) != nil {
		return nil
	}
	return d.Wave
}

// decidedCells formats the answer to an approval like other events.
func decidedCells(e event.Event) (d event.Data, step string) {
	decided, err := event.ParseDecided(e)
	if err != nil {
		return event.Data{Message: fmt.Sprintf("(the data cannot be read: %v)", err)}, ""
	}
	if decided.Step > 0 {
		step = fmt.Sprintf("%d", decided.Step)
	}
	return event.Data{
		Actor: decided.Principal, Reason: cmp.Or(string(decided.Refusal), "Accepted"), Message: decided.Message,
	}, step
}

// actorText returns the actor, or in parentheses the cause.
func actorText(d event.Data) string {
	if d.Actor != "" || d.Cause == "" {
		return d.Actor
	}
	return "(" + strings.ToLower(string(d.Cause)) + ")"
}

// oneLine replaces control characters, so that a text neither breaks its row nor controls the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// eventTable prints rows in columns that keep their greatest width so far.
type eventTable struct {
	out    io.Writer
	header []string
	widths map[string]int

	rows    [][]string
	started bool
}

func (t *eventTable) addRow(cells ...string) { t.rows = append(t.rows, cells) }

// flushRows prints the added rows, the first time with the names of the columns.
func (t *eventTable) flushRows() error {
	if len(t.rows) == 0 {
		return nil
	}
	if !t.started {
		t.rows, t.started = append([][]string{t.header}, t.rows...), true
	}
	if t.widths == nil {
		t.widths = map[string]int{}
	}
	for _, row := range t.rows {
		for i, cell := range row {
			t.widths[t.header[i]] = max(t.widths[t.header[i]], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[t.header[i]]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.out, b.String())
	return err
}

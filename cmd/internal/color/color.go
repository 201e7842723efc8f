// Package color colours text for terminals, and has the signs at the beginning of lines. It knows no terminal: its callers pass the abilities of the terminal.
// Its one invariant: without colours and Unicode, it writes plain ASCII only.
package color

// Ink colours text if On is true.
type Ink struct{ On bool }

func (i Ink) paintText(code, text string) string {
	if !i.On || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold to Cyan colour a text.
func (i Ink) Bold(text string) string   { return i.paintText("1", text) }
func (i Ink) Dim(text string) string    { return i.paintText("2", text) }
func (i Ink) Red(text string) string    { return i.paintText("31", text) }
func (i Ink) Green(text string) string  { return i.paintText("32", text) }
func (i Ink) Yellow(text string) string { return i.paintText("33", text) }
func (i Ink) Cyan(text string) string   { return i.paintText("36", text) }

// PaintVerdict colours the phase of an analysis or of a metric: green for success, red for failure, yellow for phases that need a user's attention.
func (i Ink) PaintVerdict(phase string) string {
	switch phase {
	case "Passed", "Passing":
		return i.Green(phase)
	case "Failed":
		return i.Red(phase)
	case "Stalled", "Waiting", "Inconclusive":
		return i.Yellow(phase)
	}
	return i.Cyan(phase)
}

// Marks are the signs at the beginning of lines.
type Marks struct{ Done, Here, Ready, Waiting, Failed, Branch, Last, Bar string }

// MarksFor returns the signs for a terminal with or without Unicode.
func MarksFor(unicode bool) Marks {
	if unicode {
		return Marks{"✔", "▶", "✔", "◌", "✖", "├─", "└─", "│ "}
	}
	return Marks{"+", ">", "+", "o", "!", "|-", "`-", "| "}
}

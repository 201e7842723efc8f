// Package color colours text for terminals, and has the signs that lines begin with. It knows no terminal: its callers say
// what the terminal can show. Its one invariant: without colours and Unicode, it writes plain ASCII only.
package color

// Ink colours text, or leaves it alone.
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

// PaintVerdict colours the phase of an analysis or of a metric: what goes well green, what failed red, what a person should look at yellow.
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

// Marks are the signs that lines begin with.
type Marks struct{ Done, Here, Ready, Waiting, Failed, Branch, Last, Bar string }

// MarksFor are the signs for a reader with or without Unicode.
func MarksFor(unicode bool) Marks {
	if unicode {
		return Marks{"✔", "▶", "✔", "◌", "✖", "├─", "└─", "│ "}
	}
	return Marks{"x", ">", "+", "o", "!", "|-", "`-", "| "}
}

package tree

// ink colours text, or leaves it alone.
type ink struct{ on bool }

func (i ink) paint(code, text string) string {
	if !i.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (i ink) bold(text string) string   { return i.paint("1", text) }
func (i ink) dim(text string) string    { return i.paint("2", text) }
func (i ink) red(text string) string    { return i.paint("31", text) }
func (i ink) green(text string) string  { return i.paint("32", text) }
func (i ink) yellow(text string) string { return i.paint("33", text) }
func (i ink) cyan(text string) string   { return i.paint("36", text) }

// marks are the signs that lines begin with.
type marks struct{ done, here, ready, waiting, failed, branch, last, bar string }

func marksFor(unicode bool) marks {
	if unicode {
		return marks{"✔", "▶", "✔", "◌", "✖", "├─", "└─", "│ "}
	}
	return marks{"x", ">", "+", "o", "!", "|-", "`-", "| "}
}

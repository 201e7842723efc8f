package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// theme holds the colours of a window. Each colour of text has a contrast of 4.5 to 1 or more with the background.
type theme struct {
	name                    string
	background, bar, border string
	inks                    []paint
}

// paint is the form of an ink in a theme: its class in the style sheet, its colour, and its other properties.
type paint struct {
	ink          ink
	colour, more string
}

func light() theme {
	return theme{"light", "#ffffff", "#f6f8fa", "#d0d7de", []paint{
		{plain, "#1f2328", ""}, {bold, "#1f2328", ";font-weight:bold"}, {dim, "#59636e", ""},
		{red, "#cf222e", ""}, {green, "#1a7f37", ""}, {cyan, "#1b7c83", ""},
	}}
}

func dark() theme {
	return theme{"dark", "#0d1117", "#161b22", "#30363d", []paint{
		{plain, "#e6edf3", ""}, {bold, "#f0f6fc", ";font-weight:bold"}, {dim, "#8b949e", ""},
		{red, "#ff7b72", ""}, {green, "#3fb950", ""}, {cyan, "#39c5cf", ""},
	}}
}

// These are the measures of a window, in tenths of a pixel: whole numbers give the same text on every machine.
const (
	advance  = 84 // of a column: 0.6 of the font's size
	leading  = 200
	baseline = 145 // in a line
	margin   = 200
	barSize  = 360
	top      = barSize + 140
)

const (
	title       = "Sluice releases a version step by step, and stops a bad one"
	description = "A terminal with an excerpt of what make demo prints. A person approves a step of a canary release. " +
		"The next step is reached: its pods are ready, the requests are divided between the stable version and the canary, and it waits for approval. " +
		"Then a bad version is released, its metrics fail, and all requests go back to the stable version."
)

// drawWindow draws lines as a terminal window, in SVG. Each character has the position of its column, so that lines have the same width in any font. It draws
// marks as paths, because marks differ most between fonts.
func drawWindow(lines [][]cell, t theme) string {
	var b strings.Builder
	width, height := columns*advance+2*margin, top+len(lines)*leading+margin-60
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" role="img" aria-labelledby="title desc">`+"\n",
		pixels(width), pixels(height))
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n", escapeText(title), escapeText(description))
	b.WriteString(styleSheet(t))
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%s" height="%s" rx="8" fill="%s" stroke="%s"/>`+"\n", pixels(width-10), pixels(height-10), t.background, t.border)
	fmt.Fprintf(&b, `<path d="M0.5 %[1]sV8.5a8 8 0 0 1 8 -8H%[2]sa8 8 0 0 1 8 8V%[1]sz" fill="%[3]s" stroke="%[4]s"/>`+"\n", pixels(barSize), pixels(width-85), t.bar, t.border)
	for i := range 3 {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="5.5" fill="%s"/>`+"\n", 20+i*20, t.border)
	}
	fmt.Fprintf(&b, `<text class="%s" x="%s" y="22.5" text-anchor="middle">make demo</text>`+"\n", classOf(dim), pixels(width/2))
	for i, line := range lines {
		drawLine(&b, line, top+i*leading)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func styleSheet(t theme) string {
	var b strings.Builder
	b.WriteString("<style>\ntext{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:14px}\n")
	for _, p := range t.inks {
		class := classOf(p.ink)
		fmt.Fprintf(&b, ".%s{fill:%s%s}\n", class, p.colour, p.more)
		fmt.Fprintf(&b, ".%s-line{fill:none;stroke:%s;stroke-width:1.4}\n", class, p.colour)
	}
	b.WriteString("</style>\n")
	return b.String()
}

func classOf(i ink) string {
	if i == plain {
		return "plain"
	}
	return string(i)
}

// shape draws a mark in a column, from its left end and the top of the line.
type shape struct{ path, class string }

// shapeOf returns the shape of a character, and whether the character is a mark.
func shapeOf(char rune) (shape, bool) {
	switch char {
	case '✔':
		return shape{"m0.6 10.6l2.6 3.2l4.4 -7.6", "-line"}, true
	case '▶':
		return shape{"m0.8 5.4l7 4.6l-7 4.6z", ""}, true
	case '└':
		return shape{"m4.2 0v10h4.2", "-line"}, true
	case '─':
		return shape{"m0 10h8.4", "-line"}, true
	}
	return shape{}, false
}

// drawLine draws a line whose top is at y.
func drawLine(b *strings.Builder, line []cell, y int) {
	for start := 0; start < len(line); {
		first := line[start]
		if first.char == ' ' {
			start++
			continue
		}
		if mark, ok := shapeOf(first.char); ok {
			fmt.Fprintf(b, `<path class="%s%s" d="M%s %s%s"/>`+"\n", classOf(first.ink), mark.class, columnsText(start, start+1), pixels(y), mark.path)
			start++
			continue
		}
		end := runEnd(line, start)
		fmt.Fprintf(b, `<text class="%s" x="%s" y="%s">%s</text>`+"\n",
			classOf(first.ink), columnsText(start, end), pixels(y+baseline), escapeText(textOf(line[start:end])))
		start = end
	}
}

// runEnd returns the end of the text run that starts in a column: at another ink, a mark, or two spaces, which XML would merge.
func runEnd(line []cell, start int) int {
	end := start
	for i := start; i < len(line); i++ {
		c := line[i]
		if _, mark := shapeOf(c.char); mark || c.ink != line[start].ink {
			break
		}
		if c.char != ' ' {
			end = i + 1
		} else if i+1 < len(line) && line[i+1].char == ' ' {
			break
		}
	}
	return end
}

// columnsText lists the positions of the columns of a run.
func columnsText(start, end int) string {
	var list []string
	for i := start; i < end; i++ {
		list = append(list, pixels(margin+i*advance))
	}
	return strings.Join(list, " ")
}

func textOf(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteRune(c.char)
	}
	return b.String()
}

func escapeText(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer accepts all writes
	return b.String()
}

// pixels formats tenths of a pixel as pixels.
func pixels(tenths int) string {
	return strconv.FormatFloat(float64(tenths)/10, 'f', -1, 64)
}

package main

import (
	"regexp"
	"strings"
	"unicode"
)

// A kind says how a passage is judged.
type kind int

const (
	comment  kind = iota // a comment that documents no exported name
	exported             // a comment of a package or of an exported name
	message              // a string literal that reads as prose
	page                 // a paragraph or list item of a page
	cell                 // a cell of a table
	heading
)

// A passage is text without markup that holds whole sentences: a paragraph, a list item, a cell, a heading or a message.
type passage struct {
	kind kind
	text strings.Builder
	// lines has, for each byte of the text, the line that it stands in.
	lines []int
}

func (p *passage) add(text string, line int) {
	p.text.WriteString(text)
	for range len(text) {
		p.lines = append(p.lines, line)
	}
}

func (p *passage) isEmpty() bool {
	return strings.TrimSpace(p.text.String()) == ""
}

// A word has its text as the file has it, and as the patterns see it: without emphasis and without what stands in code.
type word struct {
	text, plain string
	line        int
}

type sentence struct {
	words []word
	// opens: the first word opens a sentence. The first word of a cell that has no full stop is a label.
	opens bool
}

// plain returns the text that the patterns see, and where each word starts in it.
func (s sentence) plain() (string, []int) {
	var text strings.Builder
	var starts []int
	for _, w := range s.words {
		starts = append(starts, text.Len())
		text.WriteString(w.plain)
		text.WriteByte(' ')
	}
	return text.String(), starts
}

func (s sentence) isQuestion() bool {
	return strings.HasSuffix(strings.TrimRight(s.words[len(s.words)-1].plain, trailing), "?")
}

// length counts the words that have a letter or a digit. Code between backquotes is one word.
func (s sentence) length() int {
	n := 0
	for _, w := range s.words {
		if strings.ContainsFunc(w.plain, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// excerpt returns some words around one of the sentence.
func (s sentence) excerpt(at int) string {
	from, to := max(0, at-4), min(len(s.words), at+8)
	var words []string
	for _, w := range s.words[from:to] {
		words = append(words, w.text)
	}
	text := strings.Join(words, " ")
	if from > 0 {
		text = "... " + text
	}
	if to < len(s.words) {
		text += " ..."
	}
	return text
}

// trailing are the characters that may follow the full stop of a sentence.
const trailing = "\"')]}”’"

var (
	code = regexp.MustCompile("(?s)``.+?``|`[^`]+`")
	url  = regexp.MustCompile(`https?://\S+`)
	// abbreviation: words with a full stop that ends no sentence.
	abbreviation = regexp.MustCompile(`(?i)^["'(\[]*(e\.g|i\.e|vs|cf|resp|approx|\.\.|…)\.$`)
)

// sentences splits a passage. A sentence ends with a full stop, a question mark or an exclamation mark, or with the passage.
func (p *passage) sentences() []sentence {
	words := p.words()
	var all []sentence
	start := 0
	for i, w := range words {
		if i < len(words)-1 && !w.endsSentence() {
			continue
		}
		opens := p.kind != cell || w.endsSentence()
		all = append(all, sentence{words: words[start : i+1], opens: opens})
		start = i + 1
	}
	return all
}

func (w word) endsSentence() bool {
	end := strings.TrimRight(w.plain, trailing)
	if end == "" {
		return false
	}
	return strings.ContainsRune(".?!", rune(end[len(end)-1])) && !abbreviation.MatchString(end)
}

// words splits a passage at white space that stands outside code.
func (p *passage) words() []word {
	const inCode = '\x00'
	text := code.ReplaceAllStringFunc(p.text.String(), func(span string) string {
		return strings.Map(func(r rune) rune {
			if r == ' ' || r == '\n' || r == '\t' {
				return inCode
			}
			return r
		}, span)
	})
	var all []word
	for at := 0; at < len(text); {
		size := strings.IndexAny(text[at:], " \n\t")
		if size < 0 {
			size = len(text) - at
		}
		if size > 0 {
			raw := text[at : at+size]
			plain := code.ReplaceAllString(raw, "`x`")
			plain = url.ReplaceAllString(plain, "url")
			plain = strings.NewReplacer("*", "", "[", "", "]", "").Replace(plain)
			plain = strings.TrimLeft(plain, "_\"'(“‘")
			all = append(all, word{text: strings.ReplaceAll(raw, string(inCode), " "), plain: plain, line: p.lines[at]})
		}
		at += size + 1
	}
	return all
}

package main

import (
	"regexp"
	"strings"
)

// A marker is a pattern of stilted English.
type marker struct {
	name  string
	plain string // how to write it plainly
	// pattern is matched with each sentence in lower case.
	pattern *regexp.Regexp
	// opens: the pattern counts only where the sentence starts.
	opens bool
	// asks: the pattern does not count in a question.
	asks bool
}

// markers are twelve, so that counts compare with the review of the tree that first made them. Each puts a pronoun or an old word where
// a reader needs the name of an actor or an object.
var markers = []marker{
	{name: `What ... as a subject`, plain: `name the subject: "The executor deletes leftover objects", not "What is left is deleted"`,
		pattern: regexp.MustCompile(`^(what|who|whom|whoever|whatever|whichever)\b`), opens: true, asks: true},
	{name: `"what is ..."`, plain: `name the thing: "the remaining pods", not "what is left of the pods"`,
		pattern: regexp.MustCompile(`\bwhat (is|are|was|were)\b`), asks: true},
	{name: `"whoever"`, plain: `name the actor: the owner, the user, the caller, the executor`,
		pattern: regexp.MustCompile(`\b(whoever|whomever)\b`)},
	{name: `"whatever"`, plain: `say "any", "every" or "regardless of", with the noun`,
		pattern: regexp.MustCompile(`\bwhatever\b`)},
	{name: `"nobody"`, plain: `say "no user", "no controller", or turn the sentence round`,
		pattern: regexp.MustCompile(`\bnobody\b`)},
	{name: `"beside"`, plain: `say "next to", "in addition to", "compared with", or "at the same time as"`,
		pattern: regexp.MustCompile(`\bbeside\b`)},
	{name: `"is none"`, plain: `say "does not exist", "is not a ...", or "there is no ..."`,
		pattern: regexp.MustCompile(`\b(is|are|was|were|be) none\b`)},
	{name: `"by which"`, plain: `name the user: "the name that a process uses", not "the name by which it is known"`,
		pattern: regexp.MustCompile(`\bby which\b`)},
	{name: `"anew"`, plain: `say "again"`,
		pattern: regexp.MustCompile(`\banew\b`)},
	{name: `"of which"`, plain: `make two sentences, or say "whose"`,
		pattern: regexp.MustCompile(`\b(of which|of whom)\b`)},
	{name: `"that of"`, plain: `repeat the noun: "the Service of the release", not "that of the release"`,
		pattern: regexp.MustCompile(`\b(that|those) of\b`)},
	{name: `"lest", "save", "thereof"`, plain: `say "so that ... not", "except", "of it", "then"`,
		pattern: regexp.MustCompile(`\b(lest|thereof|whereupon|(nothing|all|every|any|always|never) save|save (for|that|where|when|if)|in which case nothing)\b`)},
}

// A match is a place in a sentence where a marker stands: the number of the word.
type match struct {
	marker *marker
	word   int
}

// matchMarkers returns the markers in a sentence, in the order of the list. A word that opens the sentence counts once.
func matchMarkers(s sentence) []match {
	text, starts := s.plain()
	text = strings.ToLower(text)
	var found []match
	rest := 0 // where the first match has ended if it opens the sentence
	for i := range markers {
		m := &markers[i]
		if m.asks && s.isQuestion() || m.opens && !s.opens {
			continue
		}
		for _, at := range m.pattern.FindAllStringIndex(text, -1) {
			if at[0] < rest {
				continue
			}
			found = append(found, match{m, wordAt(starts, at[0])})
			if m.opens {
				rest = at[1]
			}
		}
	}
	return found
}

// wordAt returns the number of the word at a place in the text, given where each word starts.
func wordAt(starts []int, place int) int {
	word := 0
	for i, start := range starts {
		if start <= place {
			word = i
		}
	}
	return word
}

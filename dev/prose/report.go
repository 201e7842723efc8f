package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	// markerLimit is the number of markers that an area may have for each 1,000 words.
	markerLimit = 2
	// lengthLimit is the number of words that a sentence may have.
	lengthLimit = 25
)

// areas lists the areas in the order of the table, with the percentage of long sentences that each may have. The percentage may only
// fall. Of the comments, it covers the contracts: the comments of packages and of exported names.
var areas = []struct {
	name string
	long int
}{
	{"README", 1},
	{"docs", 2},
	{"ADRs", 1},
	{"help and messages", 4},
	{"comments of pkg", 3},
	{"comments of cmd", 1},
	{"comments of dev", 1},
	{"comments of tests", 1},
}

// areaOf returns the area that a passage of a file counts for.
func areaOf(file string, kind kind) string {
	switch {
	case file == "README.md":
		return "README"
	case strings.HasPrefix(file, "docs/adr/"):
		return "ADRs"
	case strings.HasSuffix(file, ".md"):
		return "docs"
	case kind == message:
		return "help and messages"
	case strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/"):
		return "comments of tests"
	case strings.HasPrefix(file, "cmd/"):
		return "comments of cmd"
	case strings.HasPrefix(file, "dev/"):
		return "comments of dev"
	}
	return "comments of pkg"
}

// A total is the counts of an area.
type total struct {
	area                                      string
	words, markers, sentences, long, headings int
}

func (t *total) add(other total) {
	t.words += other.words
	t.markers += other.markers
	t.sentences += other.sentences
	t.long += other.long
	t.headings += other.headings
}

// density is the number of markers for each 1,000 words.
func (t *total) density() float64 {
	return ratio(1000*t.markers, t.words)
}

// longShare is the percentage of sentences that are too long.
func (t *total) longShare() float64 {
	return ratio(100*t.long, t.sentences)
}

func ratio(count, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(count) / float64(of)
}

// A finding is a place that a writer can mend.
type finding struct {
	line int
	text string
}

// A report has the findings of a file, and its counts by area: messages and comments of a file count apart.
type report struct {
	file     string
	findings []finding
	areas    map[string]*total
}

// newReport counts the findings of a file.
func newReport(file string, source []byte) (*report, error) {
	read := readMarkdown
	if strings.HasSuffix(file, ".go") {
		read = readGo
	}
	passages, err := read(file, source)
	if err != nil {
		return nil, err
	}
	r := &report{file: file, areas: map[string]*total{}}
	for _, p := range passages {
		r.add(p)
	}
	return r, nil
}

// add counts a passage.
func (r *report) add(p *passage) {
	area := areaOf(r.file, p.kind)
	t := r.areas[area]
	if t == nil {
		t = &total{area: area}
		r.areas[area] = t
	}
	for _, s := range p.sentences() {
		found := matchMarkers(s)
		if p.kind == heading && (s.isQuestion() || markers[0].pattern.MatchString(strings.ToLower(s.words[0].plain))) {
			t.headings++
			r.note(s, 0, "heading", "use a noun or an imperative")
			found = nil
		}
		t.words += s.length()
		t.markers += len(found)
		for _, m := range found {
			r.note(s, m.word, m.marker.name, m.marker.plain)
		}
		if p.kind == comment || p.kind == heading || !s.opens {
			continue
		}
		t.sentences++
		if n := s.length(); n > lengthLimit {
			t.long++
			r.note(s, 0, fmt.Sprintf("%d words", n), fmt.Sprintf("make sentences of at most %d words", lengthLimit))
		}
	}
}

// note adds a finding at a word of a sentence.
func (r *report) note(s sentence, at int, name, plain string) {
	r.findings = append(r.findings, finding{s.words[at].line, fmt.Sprintf("%s: %s [%s]", name, s.excerpt(at), plain)})
}

// count adds up the areas of a file.
func (r *report) count() total {
	var all total
	for _, t := range r.areas {
		all.add(*t)
	}
	return all
}

// sumAreas adds up the files, in the order of the table.
func sumAreas(reports []*report) []total {
	var sums []total
	for _, area := range areas {
		sum := total{area: area.name}
		for _, r := range reports {
			if t := r.areas[area.name]; t != nil {
				sum.add(*t)
			}
		}
		sums = append(sums, sum)
	}
	return sums
}

// brokenLimits returns a sentence for each limit that an area breaks. Sums are in the order of areas.
func brokenLimits(sums []total) []string {
	var broken []string
	for i, t := range sums {
		if t.density() > markerLimit {
			broken = append(broken, fmt.Sprintf("%s: %.1f markers for each 1,000 words; %d are allowed.", t.area, t.density(), markerLimit))
		}
		if t.longShare() > float64(areas[i].long) {
			broken = append(broken, fmt.Sprintf("%s: %.1f %% of the sentences have more than %d words; %d %% are allowed.",
				t.area, t.longShare(), lengthLimit, areas[i].long))
		}
		if t.headings > 0 {
			broken = append(broken, fmt.Sprintf("%s: %d headings are questions or start with What or Who.", t.area, t.headings))
		}
	}
	return broken
}

func printFindings(out io.Writer, reports []*report) {
	for _, r := range reports {
		slices.SortStableFunc(r.findings, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
		for _, f := range r.findings {
			fmt.Fprintf(out, "%s:%d: %s\n", r.file, f.line, f.text)
		}
	}
}

// printFiles prints the counts of each file that has findings, most markers first.
func printFiles(out io.Writer, reports []*report) {
	sorted := slices.Clone(reports)
	slices.SortStableFunc(sorted, func(a, b *report) int {
		x, y := a.count(), b.count()
		return cmp.Or(cmp.Compare(y.markers, x.markers), cmp.Compare(y.long, x.long))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "markers\twords\tlong\tsentences\tquestions\t  file\n")
	for _, r := range sorted {
		if t := r.count(); t.markers+t.long+t.headings > 0 {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t  %s\n", t.markers, t.words, t.long, t.sentences, t.headings, r.file)
		}
	}
	w.Flush()
	fmt.Fprintln(out)
}

func printTable(out io.Writer, sums []total) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "area\twords\tmarkers\tper 1,000\tlimit\tsentences\tover %d words\tshare\tlimit\theadings\t\n", lengthLimit)
	for i, t := range sums {
		if t.words > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%d\t%d\t%d\t%.1f %%\t%d %%\t%d\t\n",
				t.area, t.words, t.markers, t.density(), markerLimit, t.sentences, t.long, roundUp(t.longShare()), areas[i].long, t.headings)
		}
	}
	w.Flush()
}

// roundUp rounds to tenths, so that a share above its limit never prints as equal to it.
func roundUp(share float64) float64 {
	return math.Ceil(share*10) / 10
}

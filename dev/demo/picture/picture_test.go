package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

func TestThePicturesInTheTreeShowTheRecording(t *testing.T) {
	t.Chdir("../../..")
	pictures, err := drawPictures()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range pictures {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; to draw it, run: go run ./dev/demo/picture", err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s shows something else; to draw it again, run: go run ./dev/demo/picture (-recording +tree)\n%s", path, diff)
		}
	}
}

func TestAPictureIsSmallXMLThatAScreenReaderCanName(t *testing.T) {
	t.Chdir("../../..")
	pictures, err := drawPictures()
	if err != nil {
		t.Fatal(err)
	}
	outside := regexp.MustCompile(`href|url\(|@import|<script|<image|font-face`)
	for path, svg := range pictures {
		if len(svg) > 60<<10 {
			t.Errorf("%s has %d bytes, and may have 60 KB", path, len(svg))
		}
		if found := outside.FindString(svg); found != "" {
			t.Errorf("%s has %q, which reads from elsewhere", path, found)
		}
		elements, err := elementsOf(svg)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if diff := cmp.Diff([]string{"svg", "title", "desc"}, elements[:3]); diff != "" {
			t.Errorf("%s begins with other elements (-want +got):\n%s", path, diff)
		}
	}
}

// elementsOf returns the names of all elements of an XML document.
func elementsOf(document string) ([]string, error) {
	var names []string
	decoder := xml.NewDecoder(strings.NewReader(document))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		if start, ok := token.(xml.StartElement); ok {
			names = append(names, start.Name.Local)
		}
	}
}

func TestTheExcerptFitsAWindow(t *testing.T) {
	t.Chdir("../../..")
	printed, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := excerptRows(string(printed), excerpt())
	if err != nil {
		t.Fatal(err)
	}
	lines := paintRows(rows)
	if len(lines) > 36 {
		t.Errorf("the excerpt has %d lines, and a window has room for 36", len(lines))
	}
	for _, line := range lines {
		if len(line) > columns {
			t.Errorf("%q is wider than %d columns", textOf(line), columns)
		}
	}
}

// sluice get rollout has the same colours as in its golden files for a terminal.
func TestAReleaseHasTheColoursOfATerminal(t *testing.T) {
	archive, err := txtar.ParseFile("../../../cmd/internal/view/testdata/waits_for_approval.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string][]string{}
	for _, f := range archive.Files {
		sections[f.Name] = strings.Split(string(f.Data), "\n")
	}
	withoutColours, terminal := sections["plain"], sections["terminal"]
	if len(terminal) < 20 || len(withoutColours) != len(terminal) {
		t.Fatalf("the golden file has %d lines without colours, and %d for a terminal", len(withoutColours), len(terminal))
	}
	unready := regexp.MustCompile(`1/4 ready|^    [o!] `)
	for i, line := range withoutColours {
		if unready.MatchString(line) {
			continue
		}
		if diff := cmp.Diff(terminal[i], escapesOf(paintText(line, releaseRules()))); diff != "" {
			t.Errorf("line %d (-terminal +picture):\n%s", i+1, diff)
		}
	}
	if got, want := escapesOf(paintText("+  1  replicas 1, until approved", releaseRules())), "\x1b[32m✔\x1b[0m  1  replicas 1, until approved"; got != want {
		t.Errorf("a step that is done is %q, want %q", got, want)
	}
}

// escapesOf writes cells as a program writes them to a terminal.
func escapesOf(cells []cell) string {
	codes := map[ink]int{bold: 1, dim: 2, red: 31, green: 32, cyan: 36}
	var b strings.Builder
	for i, c := range cells {
		if c.ink != plain && (i == 0 || cells[i-1].ink != c.ink) {
			b.WriteString("\x1b[" + strconv.Itoa(codes[c.ink]) + "m")
		}
		b.WriteRune(c.char)
		if c.ink != plain && (i == len(cells)-1 || cells[i+1].ink != c.ink) {
			b.WriteString("\x1b[0m")
		}
	}
	return b.String()
}

func TestAnExcerptSaysWhichLinesTheDemoNoLongerHas(t *testing.T) {
	t.Parallel()
	const printed = "Demo\n\n== One\n$ sluice get rollout a --no-color\n  Steps\n  +  1  done\n  \n  Traffic\n\n== Two\n$ kubectl apply\n  created\n"
	for name, tt := range map[string]struct {
		scenes []scene
		want   []row
		err    string
	}{
		"lines between two cuts are left out": {
			scenes: []scene{{"One", []cut{{"$ sluice", "$ sluice"}, {"+  1", "Traffic"}}}},
			want:   []row{{kindHeading, "One"}, {kindCommand, "$ sluice get rollout a"}, {kindLeftOut, "…"}, {kindRelease, "+  1  done"}, {kindRelease, ""}, {kindRelease, "Traffic"}},
		},
		"an empty line parts two scenes": {
			scenes: []scene{{"One", nil}, {"Two", []cut{{"$ kubectl", "created"}}}},
			want:   []row{{kindHeading, "One"}, {}, {kindHeading, "Two"}, {kindCommand, "$ kubectl apply"}, {kindOutput, "created"}},
		},
		"a heading that is gone":               {scenes: []scene{{"Three", nil}}, err: `no longer has a scene "Three"`},
		"a first line that is gone":            {scenes: []scene{{"One", []cut{{"Revisions", "Traffic"}}}}, err: `the scene "One" no longer has lines from "Revisions" to "Traffic"`},
		"a last line that is before the first": {scenes: []scene{{"One", []cut{{"Traffic", "Steps"}}}}, err: `from "Traffic" to "Steps"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := excerptRows(printed, tt.scenes)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALineIsWrappedBetweenWordsAndKeepsItsColours(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("word ", 30)
	got := wrapLine(inkText(strings.TrimSpace(words), red))
	if len(got) != 2 {
		t.Fatalf("%d lines, want 2", len(got))
	}
	if joined := textOf(got[0]) + " " + strings.TrimLeft(textOf(got[1]), " "); joined != strings.TrimSpace(words) {
		t.Errorf("the lines say %q", joined)
	}
	if last := got[1][len(got[1])-1]; last.ink != red {
		t.Errorf("the second line ends in %q, want red", last.ink)
	}
	if long := wrapLine(inkText(strings.Repeat("x", 250), plain)); len(long) < 3 {
		t.Errorf("a word of 250 characters has %d lines, want at least 3", len(long))
	}
}

func TestTextIsEscaped(t *testing.T) {
	t.Parallel()
	svg := drawWindow([][]cell{inkText(`a <b> & "c"`, plain)}, light())
	if _, err := elementsOf(svg); err != nil {
		t.Fatal(err)
	}
	if want := "a &lt;b&gt; &amp; &#34;c&#34;"; !strings.Contains(svg, want) {
		t.Errorf("the picture lacks %q:\n%s", want, svg)
	}
}

func TestEachColourCanBeReadOnItsBackground(t *testing.T) {
	t.Parallel()
	for _, th := range []theme{light(), dark()} {
		classes := map[ink]bool{}
		for _, p := range th.inks {
			classes[p.ink] = true
			for _, behind := range []string{th.background, th.bar} {
				if ratio := contrast(t, p.colour, behind); ratio < 4.5 {
					t.Errorf("%s: %s has a contrast of %.1f with %s, want 4.5", th.name, classOf(p.ink), ratio, behind)
				}
			}
		}
		if diff := cmp.Diff(map[ink]bool{plain: true, bold: true, dim: true, red: true, green: true, cyan: true}, classes); diff != "" {
			t.Errorf("%s: inks (-want +got):\n%s", th.name, diff)
		}
	}
}

// contrast returns the ratio of two colours' luminances, as WCAG 2.1 defines it.
func contrast(t *testing.T, one, other string) float64 {
	t.Helper()
	a, b := luminance(t, one), luminance(t, other)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var channels [3]int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &channels[0], &channels[1], &channels[2]); err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	sum := 0.0
	for i, share := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(channels[i]) / 255
		if c <= 0.04045 {
			sum += share * c / 12.92
		} else {
			sum += share * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}

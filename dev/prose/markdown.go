package main

import (
	"regexp"
	"strings"
)

var (
	fence      = regexp.MustCompile("^\\s*(?:[-*+]\\s+|\\d+\\.\\s+|>\\s*)*(```+|~~~+)")
	title      = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	item       = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	definition = regexp.MustCompile(`^\s*\[[^\]]+\]:\s`)
	image      = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	target     = regexp.MustCompile(`\]\([^)]*\)`)
	tag        = regexp.MustCompile(`</?[a-zA-Z][^>]*>|<https?:[^>]*>`)
)

// readMarkdown returns the prose of a page: paragraphs, list items, cells and headings. Code blocks, HTML comments, images and the
// targets of links are left out.
func readMarkdown(_ string, source []byte) ([]*passage, error) {
	var all []*passage
	current := &passage{kind: page}
	end := func() {
		if !current.isEmpty() {
			all = append(all, current)
		}
		current = &passage{kind: page}
	}
	fenced, inComment, list, blank := "", false, false, true
	for i, line := range strings.Split(string(source), "\n") {
		number := i + 1
		if at := fence.FindStringSubmatch(line); fenced != "" {
			if at != nil && strings.HasPrefix(at[1], fenced) {
				fenced = ""
			}
			continue
		} else if at != nil {
			end()
			fenced = at[1]
			continue
		}
		if inComment || strings.HasPrefix(strings.TrimSpace(line), "<!--") {
			end()
			inComment = !strings.Contains(line, "-->")
			continue
		}
		line = strings.TrimLeft(strings.TrimPrefix(line, ">"), ">")
		trimmed := strings.TrimSpace(line)
		wasBlank := blank
		blank = trimmed == ""
		switch {
		case blank:
			end()
		case definition.MatchString(line):
			end()
		case title.MatchString(line):
			end()
			current.kind = heading
			current.add(stripMarkup(title.FindStringSubmatch(line)[1]), number)
			end()
			list = false
		case strings.HasPrefix(trimmed, "|"):
			end()
			for _, text := range splitCells(trimmed) {
				current.kind = cell
				current.add(stripMarkup(text), number)
				end()
			}
		case item.MatchString(line):
			end()
			list = true
			current.add(stripMarkup(item.ReplaceAllString(line, ""))+"\n", number)
		case wasBlank && !list && strings.HasPrefix(line, "    "):
			blank = true // the next line of a block of code
		default:
			if wasBlank && line == trimmed {
				list = false
			}
			current.add(stripMarkup(trimmed)+"\n", number)
		}
	}
	end()
	return all, nil
}

// stripMarkup leaves the text of links, and removes their targets, images and tags outside code.
func stripMarkup(line string) string {
	outside := func(text string) string {
		text = image.ReplaceAllString(text, "")
		text = tag.ReplaceAllString(text, "")
		return target.ReplaceAllString(text, "]")
	}
	var out strings.Builder
	last := 0
	for _, at := range code.FindAllStringIndex(line, -1) {
		// The target of a link whose text is code starts right after the code.
		out.WriteString(outside(line[last:at[0]]))
		out.WriteString(line[at[0]:at[1]])
		last = at[1]
	}
	out.WriteString(outside(line[last:]))
	return out.String()
}

// splitCells splits a row of a table at bars that stand outside code and are not escaped.
func splitCells(row string) []string {
	masked := code.ReplaceAllStringFunc(row, func(span string) string { return strings.Repeat("x", len(span)) })
	masked = strings.ReplaceAll(masked, `\|`, "xx")
	var cells []string
	last := 0
	for i := range len(masked) {
		if masked[i] == '|' {
			cells = append(cells, strings.TrimSpace(row[last:i]))
			last = i + 1
		}
	}
	return append(cells, strings.TrimSpace(row[last:]))
}

package color

import (
	"strings"
)

// PaintDiff colours the lines of a diff.
func PaintDiff(lines []string, in Ink) []string {
	painted := make([]string, len(lines))
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			painted[i] = in.Bold(line)
		case strings.HasPrefix(line, "@@"):
			painted[i] = in.Cyan(line)
		case strings.HasPrefix(line, "-"):
			painted[i] = in.Red(line)
		case strings.HasPrefix(line, "+"):
			painted[i] = in.Green(line)
		default:
			painted[i] = line
		}
	}
	return painted
}

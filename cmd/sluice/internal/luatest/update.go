package luatest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
)

// UpdateCases writes the results of the scripts below a directory into their cases, as expected results. It skips cases that expect a refusal, and cases with a
// failing step. It returns the changed files.
func UpdateCases(ctx context.Context, dir string) ([]string, error) {
	scripts, err := findScripts(dir)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, s := range scripts {
		some, err := s.updateCases(ctx)
		changed = append(changed, some...)
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func (l scriptLocation) updateCases(ctx context.Context) ([]string, error) {
	all, err := l.loadCases()
	if err != nil {
		return nil, err
	}
	source, err := compileFile(l.file)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, c := range all {
		if c.Refused != "" {
			continue
		}
		var made []map[string]any
		var beside [][]map[string]any
		for _, in := range c.Steps {
			out, err := c.Render(ctx, source, in)
			if err != nil {
				break
			}
			made, beside = append(made, cases.ShapedObject(c.Original, out)), append(beside, slices.Clip(out.Create))
		}
		file := filepath.Join(l.testdataParent(), "testdata", c.Name()+".yaml")
		if len(made) < len(c.Steps) || !caseFails(ctx, c, source) {
			continue
		}
		if c.Class == "" {
			err = writeExpected(file, "expected", made)
		}
		if err == nil && (c.Class != "" || c.Created != nil || slices.ContainsFunc(beside, func(some []map[string]any) bool { return len(some) > 0 })) {
			err = writeExpected(file, "created", beside)
		}
		if err != nil {
			return changed, err
		}
		changed = append(changed, file)
	}
	return changed, nil
}

// caseFails reports whether the result of a case differs from its expected result.
func caseFails(ctx context.Context, c cases.Case, source script.Source) bool {
	return len(c.CheckSource(ctx, source)) > 0
}

// topLevel matches the beginning of a line with a top-level key of the document.
var topLevel = regexp.MustCompile(`^["'A-Za-z]`)

// writeExpected replaces the value of a key in a case by the results of the script at each step, and keeps everything else as written.
func writeExpected(file, key string, made any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read case: %w", err)
	}
	block, err := yaml.Marshal(map[string]any{key: made})
	if err != nil {
		return fmt.Errorf("write case: %w", err)
	}
	var next strings.Builder
	inside, written := false, false
	for line := range strings.Lines(string(text)) {
		if topLevel.MatchString(line) {
			inside = strings.HasPrefix(line, key+":")
			if inside {
				next.Write(block)
				written = true
			}
		}
		if !inside {
			next.WriteString(line)
		}
	}
	if !written {
		if !strings.HasSuffix(next.String(), "\n") {
			next.WriteString("\n")
		}
		next.Write(block)
	}
	if err := os.WriteFile(file, []byte(next.String()), 0o644); err != nil {
		return fmt.Errorf("write case: %w", err)
	}
	return nil
}

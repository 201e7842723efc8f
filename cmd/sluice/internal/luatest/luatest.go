// Package luatest has the tools for authors of traffic scripts. It creates a new script, runs the test cases of scripts, updates their expected results, and
// tries a script on one object. It runs scripts and judges their results as releases do; it knows no cluster. Its one invariant: a release renders a passed
// case the same way.
package luatest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/diff"
	"sluice.dev/sluice/pkg/script"
	"sluice.dev/sluice/pkg/script/cases"
	"sluice.dev/sluice/pkg/traffic"
)

const (
	scriptFile       = "trafficRouting.lua"
	capabilitiesFile = "capabilities.yaml"
	// ingressDir has the scripts of Ingress classes: <class>.lua, <class>.capabilities.yaml and <class>/testdata.
	ingressDir = "trafficrouting_ingress"
)

// Report is the result of the cases of some scripts.
type Report struct {
	Scripts []ScriptReport `json:"scripts"`
	Passed  int            `json:"passed"` // steps
	Failed  int            `json:"failed"` // steps, and cases without any steps
}

// ScriptReport is the result of the cases of one script.
type ScriptReport struct {
	Script string       `json:"script"` // its file, below the directory that the user named
	Cases  []CaseReport `json:"cases"`
	// Unshown are the parts of its capabilities that no case covers.
	Unshown []string `json:"unshown,omitempty"`
}

// CaseReport is the result of one case.
type CaseReport struct {
	Case  string       `json:"case"`
	Steps []StepReport `json:"steps"`
}

// Passed reports whether all steps passed.
func (c CaseReport) Passed() bool {
	return !slices.ContainsFunc(c.Steps, func(s StepReport) bool { return !s.Passed })
}

// StepReport is the result of one step. Step is 0 for an error of the whole case.
type StepReport struct {
	Step   int      `json:"step"`
	Passed bool     `json:"passed"`
	Wrong  []string `json:"wrong,omitempty"`
	Diff   []string `json:"diff,omitempty"` // from the expected objects to the objects of the script
}

// scriptLocation is a script in a tree with the layout of lua_configuration.
type scriptLocation struct {
	root string // the root of the tree
	path string // below the root, with slashes: <group>/<Kind>/trafficRouting.lua
	file string // the path as the user names it
}

// isClass reports whether a path is the script of an Ingress class.
func isClass(file string) bool {
	whole, err := filepath.Abs(file)
	return err == nil && filepath.Base(filepath.Dir(whole)) == ingressDir && filepath.Ext(whole) == ".lua"
}

// testdataParent returns the directory that contains the testdata of a script.
func (l scriptLocation) testdataParent() string {
	if isClass(l.file) {
		return strings.TrimSuffix(l.file, ".lua")
	}
	return filepath.Dir(l.file)
}

// loadCases loads the cases of a script.
func (l scriptLocation) loadCases() ([]cases.Case, error) {
	if isClass(l.file) {
		return cases.LoadClassCases(os.DirFS(l.root), l.path)
	}
	return cases.LoadCases(os.DirFS(l.root), l.path)
}

// RunCases runs all cases below a directory: a tree with the layout of lua_configuration, a group of it, or the directory of one kind.
func RunCases(ctx context.Context, dir string) (Report, error) {
	scripts, err := findScripts(dir)
	if err != nil {
		return Report{}, err
	}
	var report Report
	for _, s := range scripts {
		one, err := s.runCases(ctx)
		if err != nil {
			return Report{}, err
		}
		report.Scripts = append(report.Scripts, one)
		for _, c := range one.Cases {
			for _, step := range c.Steps {
				if step.Passed {
					report.Passed++
				} else {
					report.Failed++
				}
			}
		}
	}
	return report, nil
}

// findScripts returns the scripts below a directory.
func findScripts(dir string) ([]scriptLocation, error) {
	var scripts []scriptLocation
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != scriptFile && !isClass(name) {
			return err
		}
		l, err := locateScript(name)
		scripts = append(scripts, l)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find scripts: %w", err)
	}
	if len(scripts) == 0 {
		return nil, fmt.Errorf("there is no %s in %s; name a directory with <group>/<Kind>/%s, or one of a kind, or make one with: sluice lua new GROUP KIND", scriptFile, dir, scriptFile)
	}
	return scripts, nil
}

// locateScript finds the tree of a script from its path.
func locateScript(file string) (scriptLocation, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return scriptLocation{}, fmt.Errorf("find script: %w", err)
	}
	root := filepath.Dir(filepath.Dir(whole))
	if !isClass(file) {
		root = filepath.Dir(root)
	}
	below, err := filepath.Rel(root, whole)
	if err != nil {
		return scriptLocation{}, fmt.Errorf("find script: %w", err)
	}
	return scriptLocation{root: root, path: filepath.ToSlash(below), file: file}, nil
}

func (l scriptLocation) runCases(ctx context.Context) (ScriptReport, error) {
	all, err := l.loadCases()
	if err != nil {
		return ScriptReport{}, err
	}
	report := ScriptReport{Script: l.file}
	source, broken := compileFile(l.file)
	for _, c := range all {
		one := CaseReport{Case: c.Name()}
		if broken != nil {
			one.Steps = []StepReport{{Wrong: []string{broken.Error()}}}
		} else if one.Steps, err = runSteps(ctx, c, source); err != nil {
			return ScriptReport{}, err
		}
		report.Cases = append(report.Cases, one)
	}
	shown := cases.ShownFeatures(all)
	report.Unshown = slices.DeleteFunc(cases.RequestableFeatures(source.Capabilities), func(cell string) bool { return slices.Contains(shown, cell) })
	return report, nil
}

func runSteps(ctx context.Context, c cases.Case, source script.Source) ([]StepReport, error) {
	var all []StepReport
	for _, r := range c.Run(ctx, source) {
		step := StepReport{Step: r.Step, Wrong: r.Wrong}
		if r.Want != nil && r.Err == nil {
			if why := traffic.CheckOutput(r.Input, r.Output); why != nil {
				step.Wrong = append(step.Wrong, "a release would refuse it: "+why.Error())
			}
			var err error
			if step.Diff, err = diff.CompareObjects("expected", r.Want, "got", r.Got); err != nil {
				return nil, err
			}
		}
		step.Passed = len(step.Wrong) == 0
		all = append(all, step)
	}
	return all, nil
}

// compileFile compiles a script with the capabilities in its directory.
func compileFile(file string) (script.Source, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return script.Source{}, fmt.Errorf("read script: %w", err)
	}
	program, err := script.Compile(file, string(text))
	if err != nil {
		return script.Source{}, err
	}
	source := script.Source{Program: program}
	about := filepath.Join(filepath.Dir(file), capabilitiesFile)
	if isClass(file) {
		about = strings.TrimSuffix(file, ".lua") + "." + capabilitiesFile
	}
	text, err = os.ReadFile(about)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return script.Source{}, fmt.Errorf("read capabilities: %w", err)
	default:
		if source.Capabilities, err = script.ParseCapabilities(text); err != nil {
			return script.Source{}, fmt.Errorf("%s: %w", about, err)
		}
	}
	return source, nil
}

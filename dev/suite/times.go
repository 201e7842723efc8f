package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// timesFile holds the expected times, one in each line: command, stage, package and time, separated by tabs. The package is empty for a whole stage, and the
// stage for a whole command.
const timesFile = "dev/suite/times.txt"

// timed identifies a time.
type timed struct{ command, stage, label string }

type times map[timed]time.Duration

// readTimes reads the expected times. It returns none before the first record.
func readTimes() (times, error) {
	text, err := os.ReadFile(timesFile)
	if err != nil {
		return nil, fmt.Errorf("read the expected times, which are found from the root of the repository: %w", err)
	}
	list := times{}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		words := strings.Split(lines.Text(), "\t")
		if len(words) != 4 {
			return nil, fmt.Errorf("read %s: %q has no four parts", timesFile, lines.Text())
		}
		took, err := time.ParseDuration(words[3])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", timesFile, err)
		}
		list[timed{words[0], words[1], words[2]}] = took
	}
	return list, nil
}

// with merges the times of a newer run. The times of a stage in the newer run replace all earlier times of that stage.
func (t times) with(newer times) times {
	all := maps.Clone(t)
	maps.DeleteFunc(all, func(known timed, _ time.Duration) bool {
		_, played := newer[timed{known.command, known.stage, ""}]
		return played
	})
	maps.Copy(all, newer)
	return all
}

func (t times) write() error {
	var lines []string
	for what, took := range t {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s", what.command, what.stage, what.label, took.Round(time.Second)))
	}
	slices.Sort(lines)
	if err := os.WriteFile(timesFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the expected times: %w", err)
	}
	return nil
}

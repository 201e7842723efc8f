package main

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fleetVariable are further parts that differ in each run of the demo of a fleet.
var fleetVariable = []variablePart{
	{regexp.MustCompile(`\S*/sluice-demo-\d+`), "DIR"},
	{regexp.MustCompile(`( for )(?:\d+[hms])+`), "${1}Ns"},
	// The width of a column depends on the version of the program, which a build without version control lacks.
	{regexp.MustCompile(`(?m)^  NAME +PHASE +LAST_SEEN .*$`), "  NAME   PHASE   LAST_SEEN ..."},
	{regexp.MustCompile(`(?m)^(  \w+) +Ready +\S+ +Policy .*$`), "${1}    Ready   Ns ..."},
	{regexp.MustCompile(`(?m)^(  \w+ +\d \w+ +Completed) +(v\d) +(?:\d+[hms])+ *$`), "${1}   ${2}   Ns"},
	// The hub draws the clusters of a wave in an order that depends on the UID of the FleetRollout.
	{regexp.MustCompile(`(?m)^(.*\|- )us1(  .*\n.*- )ap1(  .*)$`), "${1}ap1${2}us1${3}"},
	{regexp.MustCompile(`(?m)^  us1( +2 everyone .*\n  )ap1( +2 everyone .*)$`), "  ap1${1}us1${2}"},
	// A cluster may answer once more that it goes back when the GitOps tool applies the withdrawn version again.
	{regexp.MustCompile(`(Last transitions\n)(?:  HH.*\n)*?(  HH.*Metrics failed in us1\n)(?:  HH.*\n)*`), "${1}  ...\n${2}  ...\n"},
	// The hub may write the next message before or after a command has read the FleetRollout.
	{regexp.MustCompile(`(?m)^(  wave canary has completed in the release of .*: ).*$`), "${1}MESSAGE"},
	{regexp.MustCompile(`(has followed Approve by .*; it is ).*`), "${1}PHASE"},
}

const fleetGolden = "dev/demo/fleet.golden"

// One version goes through three clusters, and another one comes back from all, as the golden transcript shows.
func TestTheTranscriptOfAFleetIsWhatTheDemoPrints(t *testing.T) {
	got := withoutFleetVariables(playDemo(t, runFleet))
	if *update {
		save(t, filepath.FromSlash(fleetGolden), got)
	}
	if diff := cmp.Diff(read(t, filepath.FromSlash(fleetGolden)), got); diff != "" {
		t.Errorf("transcript (-golden +got); -update accepts it:\n%s", diff)
	}
}

func withoutFleetVariables(transcript string) string {
	return replaceVariables(withoutVariables(transcript), fleetVariable)
}

// A slow machine and a long path of temporary files change nothing in the transcript of a fleet.
func TestTheTranscriptOfAFleetHasNothingThatVaries(t *testing.T) {
	wantReplaced(t, withoutFleetVariables, map[string]string{
		"--dir /var/folders/x/sluice-demo-144/eu1\n":                                   "--dir DIR/eu1\n",
		"         `- ap1  Deferred for 1m3s, Unreachable\n":                            "         `- ap1  Deferred for Ns, Unreachable\n",
		"  ap1       2 everyone   Completed                   v2     1m0s    \n":       "  ap1       2 everyone   Completed   v2   Ns\n",
		"  eu1    Ready   12s         Policy        v0.3.0    0s               16s\n":  "  eu1    Ready   Ns ...\n",
		"      |- us1  Withdrawn for 0s\n      `- ap1  Withdrawn for 0s\n":             "             |- ap1  Withdrawn for Ns\n      `- us1  Withdrawn for Ns\n",
		"  us1  2 everyone  Completed  v2  9s\n  ap1  2 everyone  Completed  v2  0s\n": "  ap1  2 everyone  Completed   v2   Ns\n  us1  2 everyone  Completed   v2   Ns\n",
		"  03:08:08  us1: that is 0.03 s after the measurement\n":                      "  HH:MM:SS  us1: that is N.NN s after the measurement\n",
	})
}

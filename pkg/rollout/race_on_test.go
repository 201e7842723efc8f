//go:build race

package rollout

// mostActs is less under the race detector, which makes the exploration ten times slower and finds nothing in it: Plan starts no
// goroutine. The whole exploration is a stage of its own in dev/test.
const mostActs = 1

const (
	everyState = 40
	mostAsked  = 40
)

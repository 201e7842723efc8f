//go:build !race

package rollout

// mostActs is how many acts beyond polite approvals users have at most in an exploration: three allow a new version, another one, and
// something that crosses it.
const mostActs = 3

// everyState of the models of three steps is one in which everything is asked for; of the others it is about mostAsked, which takes seconds.
const (
	everyState = 1 << 20
	mostAsked  = 200
)

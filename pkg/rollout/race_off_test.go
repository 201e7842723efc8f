//go:build !race

package rollout

// mostActs is how many acts beyond polite approvals users have at most in an exploration: three allow a new version, another one, and
// something that crosses it.
const mostActs = 3

//go:build !race

package rollout

// actsOfUsers is how many acts beyond polite approvals users have in the largest exploration: three allow a new version, another
// one, and something that crosses it.
const actsOfUsers = 3

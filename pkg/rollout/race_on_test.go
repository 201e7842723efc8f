//go:build race

package rollout

// actsOfUsers is one less under the race detector, which makes the exploration ten times slower and finds nothing in it: Plan
// starts no goroutine.
const actsOfUsers = 2

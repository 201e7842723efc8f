//go:build race

package script

// slowdown: the race detector makes everything this much slower.
const slowdown = 20

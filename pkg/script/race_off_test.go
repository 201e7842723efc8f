//go:build !race

package script

const slowdown = 1

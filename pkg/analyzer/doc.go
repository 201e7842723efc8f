// Package analyzer measures metrics for releases: it takes one Rollout at a time from the queue, asks providers what is due, folds the
// answers into the sums of each run of analysis, and shows in the status of the Rollout what they say. It decides nothing about a
// release, which executors do by what it shows, and keeps nothing between runs that a run relies on.
//
// Invariant: what is shown is a function of the stored sums alone, sums are stored before they are shown, and a measurement is
// counted in them once at most.
package analyzer

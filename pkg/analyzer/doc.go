// Package analyzer measures metrics for releases. It takes one Rollout at a time from the queue and sends the due queries to the providers. It adds the answers
// to the sums of each run of analysis, and writes their verdict into the status of the Rollout. It decides nothing about a release, because the executor does
// that with the status, and no run relies on memory of an earlier run.
//
// Invariant: the shown verdict is a function of the stored sums alone. The analyzer stores sums before it shows them. A measurement counts in them at most
// once.
package analyzer

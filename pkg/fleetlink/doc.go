// Package fleetlink connects a cluster to the hub of its fleet: it gives the executor the last order of the hub about each Rollout, and the hub the answers
// and the heartbeats of the cluster.
//
// A cluster works without its hub: nothing here makes a run of the executor fail or wait. A message of the hub only says that there is something to read. What
// counts is the last message of the subject, which the link then reads.
//
// Its one invariant: an answer takes the place of an older answer only. Each one names the last answer that this process knew before the executor looked at
// the Rollout.
package fleetlink

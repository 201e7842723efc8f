// Package watcher turns changes in a cluster into hints on the queue: "look at this rollout", and "measure it" where an analysis
// runs. It decides nothing and writes nothing to the cluster; lost, late or repeated hints cost time only. Watchers may run side by side.
//
// Invariant: whatever a release waits for wakes it, and what no release needs to know wakes nobody.
package watcher

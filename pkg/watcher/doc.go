// Package watcher turns changes in a cluster into hints on the queue: "look at this rollout", and "measure it" while an analysis runs. It decides
// nothing and writes nothing to the cluster; lost, late or repeated hints cost time only. Several watchers may run at once.
//
// Invariant: each change that a release waits for wakes it, and a change that no release needs wakes no executor.
package watcher

// Package watcher turns changes in a cluster into hints on the queue. A hint says "look at this rollout", or "measure
// it" during an analysis. The watcher decides nothing and writes nothing to the cluster. Lost, late or repeated hints
// cost only time. Several watchers may run at the same time.
//
// Invariant: every change that a release waits for wakes it, and a change that no release needs wakes no release.
package watcher

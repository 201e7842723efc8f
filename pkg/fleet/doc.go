// Package fleet decides for one release over many clusters: which cluster may begin, how far it may go, and when all go back. [Plan] is pure. It
// knows no client, no clock and no logger.
//
// The hub gives permits and no commands: a cluster goes on only under a permit, and needs none to stop or to go back. A grant is a group of
// permits. The executor of the hub commits the grant to the status of the FleetRollout, then writes the permits into FleetTargets, and then
// publishes them.
//
// The package has one invariant: it gives no grant before it has seen every permit of the grant before. So limits that span many clusters hold,
// although each executor decides by caches that may be late.
package fleet

// Package fleethub carries out FleetRollouts in the cluster of a fleet's hub. It takes one FleetRollout at a time from the queue, calls [fleet.Plan] with the
// objects of the hub and the last messages of the clusters, and commits the decision. It decides nothing itself, and no run relies on memory of an earlier run.
//
// Its one invariant is the order of its writes: the status of the FleetRollout with the grant, then the FleetTargets with the permits, then the orders to the
// clusters. Each write names the version that the run has seen.
package fleethub

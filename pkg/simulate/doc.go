// Package simulate plays a release to its end in memory, and tells what happened to which object at each step. The same packages carry it out
// as in a cluster: the loop is [executor.Reconciler], planner decides, kube observes and acts. Only two things are made up: an API server
// that keeps objects in memory, and the controllers of workloads, which are as fast as they may be and whose pods are all well.
//
// It is no simulation of a cluster: nothing fails, nobody interferes, and no admission webhook changes an object. Its one invariant: no request
// other than a GET ever leaves it.
package simulate

// Package simulate carries out a release to its end in memory, and reports the change of each object at each step. It uses the packages of the executor:
// [executor.Reconciler] is the loop, planner decides, kube observes and acts. Only two parts are simulated. An API server keeps objects in memory. The
// controllers of workloads act at once, and their pods are always healthy.
//
// It does not simulate a cluster: nothing fails, no other client writes, and no admission webhook changes an object. Its one invariant: the only requests that
// leave the process are GET requests.
package simulate

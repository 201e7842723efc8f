// Package kinds is the table of the kinds of workloads that Sluice releases, except Deployments: the fields that hold a kind, its defaults, and
// the fields of its status. All that differs from kind to kind by a name, a path or a default stands here, once.
//
// These packages read the table: workload (what a release sees and patches), hold and deploy/policies/gen (admission), watcher, kube, preflight
// and cmd/internal/view. A new kind of workload is one row of [All]. It needs code only where its pods are replaced in a new way.
// A few exceptions ask for a kind by name: search pkg for IsCloneSet, WorkloadType and "DaemonSet".
//
// A Deployment has no row: client-go has its types, spec.paused holds it, and its two policies are written by hand. The table names its policy
// family only, in [Families].
//
// The package reads no cluster and decides nothing. Its one invariant: rows of one policy family have the same fields, because one pair of
// policies holds them all.
package kinds

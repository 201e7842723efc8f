// Package crash makes each act of a release fail, one at a time. It records an undisturbed release of each style and
// with each event. Then it plays that release again for each way in which each act can fail. Acts are writes, messages
// to NATS and frames of watches. It holds tests only.
//
// Its invariant: no code of the package helps a disturbed release. As in production, a dead executor's lease expires
// and its work is delivered again. The test does not prompt the next executor to reconcile.
package crash

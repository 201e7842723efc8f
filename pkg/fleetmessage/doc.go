// Package fleetmessage has the messages between the hub of a fleet and its clusters: their content, their signatures, and the checks of the
// receiver.
//
// A message is a whole state: an order has everything that the hub says to one cluster about one Rollout, and an answer everything that the cluster
// says about it. So a receiver needs the last message of each subject only, and lost, doubled and reordered messages do no harm.
//
// The package does not send anything and decides nothing about releases. Its one invariant: what [Receiver.OpenOrder] and [OpenAnswer] return was
// signed by a trusted key, for this receiver, about this Rollout, and is not older than the last one.
package fleetmessage

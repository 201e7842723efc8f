// Package crash lets everything that can go wrong in a release go wrong, once each. It records what an undisturbed release
// does, of each style and with each turn, and then plays that release again for each single write of it, each word to NATS and each
// frame of a watch, in each way in which that one can fail. It holds tests only.
//
// Its invariant: nothing here helps a release that was hurt. A dead executor's lease expires and its work is delivered again as it
// would be in production, and nobody tells the next one to look.
package crash

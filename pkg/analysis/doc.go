// Package analysis turns measurements of metrics into verdicts about a release.
//
// [ParseMetric] reads a metric of a template. [Metric.Measure] judges the answer of a provider. [NextState] folds one judged measurement into the
// [State] of a metric's run and returns the verdict. [Evidence] compares a canary with the stable group: the test stays valid however often the
// analyzer looks. Everything here is a pure function of its arguments: the package has no client, no clock and no logger, and it stores nothing. It
// sends no queries, and does not act on a verdict.
//
// Invariant: a metric passes only because of measurements that passed, or that found no data where its policy says that this passes. A metric without
// measurements never passes, and neither does a measurement that ended with an error.
package analysis

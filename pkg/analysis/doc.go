// Package analysis turns measurements of metrics into verdicts about a release.
//
// [ParseMetric] reads a metric of a template, [Metric.Measure] judges what a provider answered, and [NextState] folds one judged measurement
// into the [State] of a metric's run and says what now holds. [Evidence] is the comparison of a canary with the stable group: a
// test that stays valid however often one looks. Everything here is a pure function of its arguments: it knows no client, no
// clock, no logger, and it stores nothing. It does not query, and it does not act on a verdict.
//
// Invariant: a metric passes only because of measurements that passed, or that found no data where its policy says that this
// passes. None at all never pass, and what could not be measured never does.
package analysis

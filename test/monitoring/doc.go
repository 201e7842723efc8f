// Package monitoring checks the alert rules and the dashboard of deploy/monitoring with Prometheus's own parser and
// query engine, against the real metrics of Sluice. It is a separate module, so that Sluice does not depend on
// Prometheus.
package monitoring

// Package monitoring checks the alert rules and the dashboard of deploy/monitoring with Prometheus's own parser and query engine,
// against the metrics that Sluice really has. It is a module of its own, so that Prometheus is no dependency of Sluice.
package monitoring

package analyzer

import "time"

// Kube and Store are the interfaces that tests wrap to stop the analyzer.
type (
	Kube  = kubeClient
	Store = store
)

// Through wraps the requests of an analyzer to the cluster and to NATS.
func (a *Analyzer) Through(k func(Kube) Kube, s func(Store) Store) {
	if k != nil {
		a.kube = k(a.kube)
	}
	if s != nil {
		a.store = s(a.store)
	}
}

// At sets the clock.
func (a *Analyzer) At(clock func() time.Time) { a.Clock = clock }

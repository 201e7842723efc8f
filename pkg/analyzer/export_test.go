package analyzer

import "time"

// Kube and Store are what tests put deaths between.
type (
	Kube  = kubeClient
	Store = store
)

// Through puts something between an analyzer and what it does.
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

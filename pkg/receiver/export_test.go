package receiver

import "time"

// At has the gate go by a clock of a test's.
func (k *Kube) At(now func() time.Time) { k.now = now }

package receiver

import "time"

// At has the gate go by a clock of a test's.
func (k *KubeAccess) At(now func() time.Time) { k.now = now }

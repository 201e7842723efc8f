package receiver

import "time"

// At sets the clock of the access control.
func (k *KubeAccess) At(now func() time.Time) { k.now = now }

package world

// Journal begins to keep what is written to a namespace; what it returns reads the writes since then, in the order in which they took
// effect. It costs what was written to the whole cluster meanwhile, and not since the start as [World.Writes] does.
func (w *World) Journal(namespace string) func() ([]Write, error) {
	begun := w.auditSize()
	return func() ([]Write, error) { return w.writesSince(begun, namespace) }
}

// Package analyzer will measure metrics for releases. Analysis does not exist yet: an analyzer idles, and the core holds every
// Rollout that asks for analysis, so that none is let through unmeasured.
package analyzer

import (
	"context"
	"log/slog"
)

// Options say with what an analyzer works.
type Options struct{ Logger *slog.Logger }

// Run idles until ctx is done.
func Run(ctx context.Context, o Options) error {
	o.Logger.Info("analysis is not part of this version: idling; Rollouts that ask for it are held")
	<-ctx.Done()
	return nil
}

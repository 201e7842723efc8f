package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"sluice.dev/sluice/pkg/certwatch"
)

// Files serves the certificate in a directory, in the files tls.crt and tls.key. Another controller renews it, such as cert-manager through a mounted
// Secret.
type Files struct{ *certwatch.Watcher }

// NewFiles reads the directory once, to fail early.
func NewFiles(dir string, log *slog.Logger) (*Files, error) {
	watcher, err := certwatch.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), func(err error) {
		log.Warn("the certificate of the webhook cannot be read again, the one before is used on", "error", err)
	})
	if err != nil {
		return nil, fmt.Errorf("read the certificate in --webhook-cert-dir: %w", err)
	}
	return &Files{watcher}, nil
}

// Run only waits, because the watcher reads the files at each handshake.
func (f *Files) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

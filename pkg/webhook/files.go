package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Files are the certificate that somebody else keeps fit in a directory, as tls.crt and tls.key: cert-manager, by a Secret that is
// mounted. They are read again when they change; while they cannot be, the last ones that could be count.
type Files struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	last  *tls.Certificate
	stamp [2]time.Time
}

// NewFiles reads the directory once, to fail early.
func NewFiles(dir string, log *slog.Logger) (*Files, error) {
	f := &Files{dir: dir, log: log}
	_, err := f.CurrentCertificate(nil)
	return f, err
}

// Run has nothing to do: the files are looked at when they are needed.
func (f *Files) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// CurrentCertificate is the certificate in the files.
func (f *Files) CurrentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := [2]string{filepath.Join(f.dir, "tls.crt"), filepath.Join(f.dir, "tls.key")}
	var stamp [2]time.Time
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			stamp[i] = info.ModTime()
		}
	}
	if f.last != nil && stamp == f.stamp {
		return f.last, nil
	}
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	switch {
	case err == nil:
		f.last, f.stamp = &pair, stamp
	case f.last == nil:
		return nil, fmt.Errorf("read the certificate in --webhook-cert-dir: %w", err)
	default:
		f.log.Warn("the certificate of the webhook cannot be read again, the one before is used on", "error", err)
	}
	return f.last, nil
}

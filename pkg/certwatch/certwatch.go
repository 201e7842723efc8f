// Package certwatch reads the certificate of a server from two files, and reads it again after they change. It serves nothing, and the server needs
// no restart. Its invariant: while it cannot read the files, the last readable certificate stays in use.
package certwatch

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// Watcher holds the certificate of two files. It checks their times at each handshake, and starts no goroutine.
type Watcher struct {
	certFile, keyFile string
	warn              func(error)

	mu    sync.Mutex
	last  *tls.Certificate
	stamp [2]time.Time
}

// New reads the files once, to fail early. It calls warn at each handshake if the files have changed and it cannot read them.
func New(certFile, keyFile string, warn func(error)) (*Watcher, error) {
	w := &Watcher{certFile: certFile, keyFile: keyFile, warn: warn}
	if _, err := w.CurrentCertificate(nil); err != nil {
		return nil, err
	}
	return w, nil
}

// CurrentCertificate returns the certificate in the files. It fits [tls.Config.GetCertificate].
func (w *Watcher) CurrentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var stamp [2]time.Time
	for i, file := range []string{w.certFile, w.keyFile} {
		if info, err := os.Stat(file); err == nil {
			stamp[i] = info.ModTime()
		}
	}
	if w.last != nil && stamp == w.stamp {
		return w.last, nil
	}
	pair, err := tls.LoadX509KeyPair(w.certFile, w.keyFile)
	switch {
	case err == nil:
		w.last, w.stamp = &pair, stamp
	case w.last == nil:
		return nil, err
	default:
		w.warn(err)
	}
	return w.last, nil
}

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// layer returns the files of an image: the programs of the directory at the root, and the certificate authorities where Go looks for them.
func (b *build) layer(dir string) (v1.Layer, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the programs: %w", err)
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, parent := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		if err := w.WriteHeader(b.header(parent, tar.TypeDir, 0o755, 0)); err != nil {
			return nil, fmt.Errorf("write the layer: %w", err)
		}
	}
	if err := b.addFile(w, "etc/ssl/certs/ca-certificates.crt", 0o644, authorities()); err != nil {
		return nil, err
	}
	for _, entry := range entries { // sorted by name
		program, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a program: %w", err)
		}
		if err := b.addFile(w, path.Base(entry.Name()), 0o755, program); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	return layer, nil
}

func (b *build) header(name string, kind byte, mode int64, size int) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: int64(size), ModTime: b.commit.time.Truncate(time.Second), Format: tar.FormatPAX}
}

func (b *build) addFile(w *tar.Writer, name string, mode int64, text []byte) error {
	if err := w.WriteHeader(b.header(name, tar.TypeReg, mode, len(text))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// authorities returns the certificate authorities that Go's own fallback has, in PEM.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return text.Bytes()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profileFor is the duration of a CPU profile; health servers cut answers off after 30 s.
const profileFor = 20 * time.Second

// beginProfiles starts CPU profiles of the watcher and the first executor, if the options request them. The returned function waits for them.
func (b *bench) beginProfiles(ctx context.Context, releases, executors int) func() error {
	if b.opts.profile == "" {
		return func() error { return nil }
	}
	var files []chan error
	for _, p := range b.parts {
		if p.name == "analyzer" || strings.HasPrefix(p.name, "executor-") && p.name != "executor-1" {
			continue
		}
		path := filepath.Join(b.opts.profile, fmt.Sprintf("%s-of-%d-at-%d.pprof", p.name, executors, releases))
		done := make(chan error, 1)
		go func() { done <- p.profile(ctx, path) }()
		files = append(files, done)
	}
	return func() error {
		var errs []error
		for _, done := range files {
			errs = append(errs, <-done)
		}
		return errors.Join(errs...)
	}
}

func (p *part) profile(ctx context.Context, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", p.address, profileFor.Seconds())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("take a profile of %s: %w", p.name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("take a profile of %s: the answer is %s", p.name, answer.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory of profiles: %w", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("take a profile of %s: %w", p.name, err)
	}
	return os.WriteFile(path, body, 0o644)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// change is one event of a watch.
type change struct {
	Type   string
	Object view
}

// watch reports all objects of a collection with a label, and their changes, until ctx ends. The server of a busy machine may end a watch or break it off. Then
// watch starts again, and reports all objects again.
func (c *client) watch(ctx context.Context, path, selector string, tell func(change)) error {
	for ctx.Err() == nil {
		var stream io.ReadCloser
		err := patiently(ctx, func(bool) (err error) {
			stream, err = c.raw.Get().AbsPath(path).Param("watch", "true").Param("labelSelector", selector).SetHeader("Accept", "application/json").Stream(ctx)
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch %s: %w", path, err)
		}
		err = tellAll(stream, tell)
		_ = stream.Close()
		if err != nil && ctx.Err() == nil {
			say("a watch of %s broke and is begun again: %v", path, err)
			pauseFor(ctx, firstWait)
		}
	}
	return nil
}

// tellAll returns nil at the end of a stream.
func tellAll(stream io.Reader, tell func(change)) error {
	for decoder := json.NewDecoder(stream); ; {
		var next change
		err := decoder.Decode(&next)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case next.Type == "ERROR": // its object is a Status, and cannot be decoded as a watched object
			return errors.New("the server cannot go on with it")
		case err != nil:
			return err
		}
		tell(next)
	}
}

// pauseFor waits for d, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// loads are the ways to load the machine during tests, by name.
var loads = map[string]func(dir string) error{
	"cpu":    spin,
	"memory": fill,
	"disk":   flush,
}

// loadCommand is the process that `suite flaky` starts in parallel to the tests. It ends with its standard input, and so with its parent.
func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load KIND DIR", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			load, known := loads[args[0]]
			if !known {
				return fmt.Errorf("there is no load %q", args[0])
			}
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(0)
			}()
			return load(args[1])
		},
	}
}

// spin uses one core, as far as the scheduler allows.
func spin(string) error {
	//lint:ignore SA5002 to spin is what it is for
	for {
	}
}

// filled is the memory of one load, in bytes.
const filled = 1 << 30

// fill allocates memory and touches all of it repeatedly, so that the kernel cannot page it out.
func fill(string) error {
	debug.SetGCPercent(-1)
	held := make([]byte, filled)
	for {
		for i := 0; i < len(held); i += os.Getpagesize() {
			held[i]++
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// flushed is the amount written to disk before each flush, in bytes.
const flushed = 16 << 20

// flush writes a file and waits until it is on disk, repeatedly, so that other processes wait for the disk too.
func flush(dir string) error {
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("load-%d", os.Getpid())))
	if err != nil {
		return fmt.Errorf("load the disk: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return fmt.Errorf("load the disk: %w", err)
	}
	data := make([]byte, flushed)
	for {
		if _, err := file.WriteAt(data, 0); err != nil {
			return fmt.Errorf("load the disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return fmt.Errorf("load the disk: %w", err)
		}
	}
}

// startLoad starts count processes of a load; stop ends them and waits.
func startLoad(ctx context.Context, kind, dir string, count int) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a load: %w", err)
	}
	var ends []func()
	stop = func() {
		for _, end := range ends {
			end()
		}
	}
	for range count {
		c := exec.CommandContext(ctx, self, "load", kind, dir)
		c.Stderr = os.Stderr
		lifeline, err := c.StdinPipe()
		if err != nil {
			stop()
			return nil, fmt.Errorf("start a load: %w", err)
		}
		if err := c.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("start a load: %w", err)
		}
		ends = append(ends, func() {
			_ = lifeline.Close()
			_ = c.Wait()
		})
	}
	return stop, nil
}

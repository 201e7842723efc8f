// Command sluice is the command line of Sluice, also as the kubectl plugin kubectl-sluice: it runs all parts in one process,
// shows, approves, freezes, stops and retries releases, gives workloads older versions back, checks clusters, and prints what to install.
//
// It decides nothing about releases: it reads what the executor wrote, and its only writes are those by which anybody may ask for
// something: approvals, jumps and commands in the status, spec.strategy.paused, and the pod template of the workload. Invariant: results go to standard output, messages to standard error, and the exit code is not 0
// when the command did not do what it was asked to: 1, but for decisions of others that a pipeline must tell apart.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := executeCommand(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// executeCommand runs a command line and returns the exit code. args[0] is the name of the program, which decides how help calls it.
func executeCommand(ctx context.Context, args []string, out, errors io.Writer) int {
	root := newRoot(args[0], out, errors)
	root.SetArgs(args[1:])
	if err := root.ExecuteContext(ctx); err != nil {
		if text := errorMessage(err); text != "" {
			fmt.Fprintln(errors, text)
		}
		return codeOf(err)
	}
	return 0
}

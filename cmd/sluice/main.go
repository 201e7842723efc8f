// Command sluice is the command line of Sluice, also as the kubectl plugin kubectl-sluice. It runs all parts in one process. It shows, approves, pauses, aborts
// and retries releases, restores older versions of workloads, checks clusters, and prints the manifests to install.
//
// It decides nothing about releases: it reads the status that the executor wrote. It writes only requests that any client may write: approvals, jumps and
// commands in the status, spec.strategy.paused, and the pod template of the workload. Invariant: results go to standard output, messages to standard error, and
// the exit code is not 0 when the command failed. It is 1, except for decisions of others that a pipeline must distinguish.
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

// executeCommand runs a command line and returns the exit code. args[0] is the name of the program, which the help texts use.
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

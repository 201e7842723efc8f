package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// call is one line of standard input: a command to run. Tests send thousands, and the start of a process for each would take most of the time.
type call struct {
	ID    int      `json:"id"`
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
}

// answer is one line of standard output: the result of a call, in the order in which calls end.
type answer struct {
	ID     int    `json:"id"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Code   int    `json:"code"`
}

// exit is the panic value of a command that would end the process.
type exit struct {
	message string
	code    int
}

// serve runs each call in parallel with the running ones, until the input ends.
func serve(in io.Reader, out io.Writer) {
	util.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
	var mu sync.Mutex
	answers := json.NewEncoder(out)
	for calls := json.NewDecoder(in); ; {
		var c call
		if calls.Decode(&c) != nil {
			return
		}
		go func() {
			a := c.run()
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(a) // it fails when the test has ended, which then reads no answer
		}()
	}
}

// run runs the command as in a separate process.
func (c call) run() (a answer) {
	var stdout, stderr bytes.Buffer
	defer func() {
		if reason := recover(); reason != nil {
			e, ok := reason.(exit)
			if !ok {
				e = exit{fmt.Sprintf("panic: %v\n%s", reason, debug.Stack()), 2}
			}
			if e.message != "" {
				fmt.Fprintln(&stderr, strings.TrimSuffix(e.message, "\n"))
			}
			a.Code = e.code
		}
		a.ID, a.Stdout, a.Stderr = c.ID, stdout.String(), stderr.String()
	}()
	args, remove, err := c.inFile()
	util.CheckErr(err)
	defer remove()
	streams := genericiooptions.IOStreams{In: strings.NewReader(c.Stdin), Out: &stdout, ErrOut: &stderr}
	kubectl := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		Arguments: append([]string{"kubectl"}, args...), IOStreams: streams,
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams),
	})
	kubectl.SetArgs(args)
	kubectl.SetIn(streams.In)
	kubectl.SetOut(streams.Out)
	kubectl.SetErr(streams.ErrOut)
	kubectl.SilenceUsage, kubectl.SilenceErrors = true, true
	util.CheckErr(kubectl.Execute())
	return a
}

// inFile writes the input of a call to a temporary file if the command would read standard input as a file. kubectl would otherwise read the standard input of
// the process.
func (c call) inFile() (args []string, remove func(), err error) {
	at := slices.Index(c.Args, "-")
	if at < 0 {
		return c.Args, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "kubectl-")
	if err != nil {
		return nil, nil, err
	}
	args = slices.Clone(c.Args)
	args[at] = filepath.Join(dir, "STDIN")
	return args, func() { _ = os.RemoveAll(dir) }, os.WriteFile(args[at], []byte(c.Stdin), 0o600)
}

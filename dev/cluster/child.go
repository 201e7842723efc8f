package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// child is one component in a separate process.
type child struct {
	name    string
	logPath string
	// program and args are the command line of the process.
	program string
	args    []string
	cmd     *exec.Cmd
	// lifeline is the standard input of the child; see component.
	lifeline io.WriteCloser
	// ended is closed when the process is gone; err is set before that.
	ended chan struct{}
	err   error
}

// startChild starts a component of a program with the given flags; an empty program means this one. The component runs nothing before release. The caller must
// be a goroutine locked to its thread for the life of the child. Linux kills the child when the thread that started it ends.
func startChild(dir, program, name string, args []string) (*child, error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the own executable: %w", err)
		}
	}
	c := &child{name: name, logPath: filepath.Join(dir, name+".log"), program: program, args: args, ended: make(chan struct{})}
	log, err := os.Create(c.logPath)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", name, err)
	}
	defer log.Close()
	c.cmd = exec.Command(program, append([]string{"component", name}, args...)...)
	c.cmd.Dir = dir
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = dieWithParent()
	if c.lifeline, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make the lifeline of %s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// release lets the component begin.
func (c *child) release() error {
	if _, err := c.lifeline.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("release %s: %w", c.name, err)
	}
	return nil
}

// stop kills the process and returns when it is gone. No component needs a graceful end: the API server writes the audit log before each answer, and etcd
// belongs to `up` itself.
func (c *child) stop() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.lifeline.Close()
}

// endedChild is a child that has ended by itself.
type endedChild struct{ *child }

// Error describes the end of the child, with the tail of its log.
func (e endedChild) Error() string {
	return fmt.Sprintf("%s ended by itself (%v); the end of %s:\n%s", e.name, e.err, e.logPath, tail(e.logPath, 4000))
}

// tail returns the last n bytes of a file, from the beginning of a line on.
func tail(path string, n int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	if _, rest, ok := bytes.Cut(text, []byte{'\n'}); ok {
		return rest
	}
	return text
}

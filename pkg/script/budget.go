package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Prices of the work of library functions, in budget units.
const (
	bytesPerStep = 64   // scanning or copying this many bytes costs one step
	unitsPerStep = 8    // this many attempts of the pattern matcher cost one step
	tablePrice   = 4096 // bytes: the engine allocates this for a table once the script fills it
	slotPrice    = 32   // bytes: one more element in a table
	maxString    = 256 << 10

	stepsPerValue = 200 // granted for each value of the input
	clockEvery    = 64  // steps between two checks of the clock
)

// run is the state of one call of a program. It is the engine's context: the VM
// calls Done before every instruction, so a Done that counts is a deterministic CPU
// meter. Library functions find it through L.Context.
type run struct {
	limits  Limits
	state   *lua.LState
	parent  context.Context
	expires time.Time
	steps   int
	bytes   int
	ticks   int
	values  int      // converted to Lua so far
	names   []string // scratch: the members of the objects on the path to the current value
	named   int      // members that the source assigns to by name
	stopped Kind     // "" while the run may go on
	memory
	tableWalk
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newRun(ctx context.Context, p *Program, limits Limits) *run {
	return &run{
		limits: limits, parent: ctx, expires: time.Now().Add(limits.Deadline),
		steps: limits.Steps, bytes: limits.Bytes, named: p.named,
	}
}

// grantSteps raises the step budget with the size of the input, because a script may
// read each of a thousand rules.
func (r *run) grantSteps() {
	extra := min(r.values*stepsPerValue, 3*r.limits.Steps)
	r.steps += extra
	r.limits.Steps += extra
}

func runOf(L *lua.LState) *run { return L.Context().(*run) }

// Done counts one instruction. Once a budget is spent, Done returns a closed
// channel, so pcall gains the script nothing.
func (r *run) Done() <-chan struct{} {
	r.steps--
	r.ticks++
	if r.steps < 0 && r.stopped == "" {
		r.stopped = KindSteps
	}
	if r.ticks%clockEvery == 0 {
		r.checkClock()
	}
	if r.stopped != "" {
		return closed
	}
	return nil
}

func (r *run) checkClock() {
	if r.stopped == "" && (time.Now().After(r.expires) || r.parent.Err() != nil) {
		r.stopped = KindDeadline
	}
}

// Err returns an error for the spent budget; nil while no budget is spent.
func (r *run) Err() error {
	switch r.stopped {
	case "":
		return nil
	case KindSteps:
		return fmt.Errorf("the script was stopped after %d steps: it loops, or does too much work for one call", r.limits.Steps)
	case KindBytes:
		return fmt.Errorf("the script was stopped: it uses more than %d bytes of memory, or a string longer than %d bytes", r.limits.Bytes, maxString)
	}
	if err := r.parent.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the script was stopped: %w", err)
	}
	return fmt.Errorf("the script was stopped after %v: %w", r.limits.Deadline, context.DeadlineExceeded)
}

func (r *run) Deadline() (time.Time, bool) { return r.expires, true }

func (r *run) Value(any) any { return nil }

// chargeSteps charges steps for work that the VM does not see.
func (r *run) chargeSteps(L *lua.LState, steps int) {
	r.steps -= steps
	if r.steps < 0 && r.stopped == "" {
		r.stopped = KindSteps
	}
	r.raiseIfStopped(L)
}

// chargeScan charges for reading n bytes.
func (r *run) chargeScan(L *lua.LState, n int) { r.chargeSteps(L, 1+n/bytesPerStep) }

// chargeBytes charges for n bytes that the script may keep, before they are
// allocated.
func (r *run) chargeBytes(L *lua.LState, n int) {
	r.bytes -= n
	if r.bytes < 0 && r.stopped == "" {
		r.stopped = KindBytes
	}
	r.raiseIfStopped(L)
}

// chargeString charges for a string of n bytes, before it is built.
func (r *run) chargeString(L *lua.LState, n int) {
	if n > maxString && r.stopped == "" {
		r.stopped = KindBytes
	}
	r.chargeBytes(L, n+16)
	r.chargeScan(L, n)
}

// raiseIfStopped raises the error of a spent budget, if any.
func (r *run) raiseIfStopped(L *lua.LState) {
	if r.stopped != "" {
		L.RaiseError("%s", r.Err().Error())
	}
}

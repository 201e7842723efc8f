package script

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is the reason why a script was refused or stopped.
type Kind string

// The kinds of [Error]. Every kind except KindDeadline is a property of the script
// and its input: the same call gives the same result on every machine. KindDeadline
// depends on the machine and is worth a retry.
const (
	KindSyntax   Kind = "Syntax"   // the source does not parse or compile
	KindTooLarge Kind = "TooLarge" // the source is longer or deeper than a script may be
	KindInput    Kind = "Input"    // the input cannot be expressed in Lua
	KindRuntime  Kind = "Runtime"  // the script raised an error
	KindSteps    Kind = "Steps"    // the instruction budget is spent
	KindBytes    Kind = "Bytes"    // the memory budget is spent
	KindDeadline Kind = "Deadline" // the wall clock ran out, or the caller's context ended
	KindOutput   Kind = "Output"   // the returned value is not JSON, or too large
)

// Error is the only error that scripts cause. Message keeps the wording of Lua for
// errors of the script itself, carries no stack trace and is at most maxMessage
// bytes long. Line is 0 if no line caused the error.
type Error struct {
	Script  string
	Line    int
	Kind    Kind
	Message string
}

const maxMessage = 1024

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("script %s, line %d: %s", e.Script, e.Line, e.Message)
	}
	return fmt.Sprintf("script %s: %s", e.Script, e.Message)
}

// IsLate reports whether the clock stopped a script, so that the same call may succeed on a less busy machine.
func IsLate(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindDeadline
}

// shorten cuts a message that a script may have made arbitrarily long, and replaces
// characters that are not text.
func shorten(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage-3] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

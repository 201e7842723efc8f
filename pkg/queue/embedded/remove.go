package embedded

import (
	"os"
	"time"
)

const (
	removeWait  = 10 * time.Second
	removePause = 20 * time.Millisecond
)

// Remove removes a directory which has that of a closed server in it, and all that is there. A server that is shut down waits 0.1 s
// for its consumers' states to be written: on a busy machine a file may still come after that, so that one removal is not enough.
// The error is that of the last attempt, after 10 s.
func Remove(dir string) error {
	for end := time.Now().Add(removeWait); ; time.Sleep(removePause) {
		if err := os.RemoveAll(dir); err == nil || time.Now().After(end) {
			return err
		}
	}
}

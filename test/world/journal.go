package world

import (
	"slices"
	"time"
)

// Journal starts to record the writes to a namespace. The returned function reads the writes since then, in the order
// in which they took effect. Its cost grows with the writes to the whole cluster in that time, unlike [World.Writes],
// which reads the log from the start. A busy API server logs a write after it has answered, so Journal leaves out
// writes that it received earlier.
func (w *World) Journal(namespace string) func() ([]Write, error) {
	begun, now := w.auditSize(), time.Now()
	return func() ([]Write, error) {
		writes, err := w.writesSince(begun, namespace)
		return slices.DeleteFunc(writes, func(w Write) bool { return w.Received.Before(now) }), err
	}
}

// Ending returns the writes of executors after the last write of a user, in order: to objects, and to the status of
// Rollouts. It leaves out pods, the history of the release and writes of controllers.
func Ending(writes []Write) (objects, commits []Write) {
	for _, w := range writes {
		byUser := w.User != executorUser
		switch {
		case w.Code >= 300 || w.Resource == "pods" || w.Resource == "rollouthistories" || w.Resource == "endpointslices":
		case byUser && (w.Resource == "controllerrevisions" || w.Resource != "rollouts" && w.Subresource == "status"):
		case byUser:
			objects, commits = nil, nil
		case w.Resource == "rollouts":
			commits = append(commits, w)
		default:
			objects = append(objects, w)
		}
	}
	return objects, commits
}

// String names a write as "verb resource name".
func (w Write) String() string { return w.Verb + " " + w.Resource + " " + w.Name }

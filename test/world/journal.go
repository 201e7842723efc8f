package world

import (
	"slices"
	"time"
)

// Journal begins to keep what is written to a namespace; what it returns reads the writes since then, in the order in which they took
// effect. It costs what was written to the whole cluster meanwhile, and not since the start as [World.Writes] does. A busy API server puts a write into the
// audit log after it has answered: what it received before the journal began is left out.
func (w *World) Journal(namespace string) func() ([]Write, error) {
	begun, now := w.auditSize(), time.Now()
	return func() ([]Write, error) {
		writes, err := w.writesSince(begun, namespace)
		return slices.DeleteFunc(writes, func(w Write) bool { return w.Received.Before(now) }), err
	}
}

// Ending is what executors wrote after the last write of a user, in order: to objects, and of the status of Rollouts. Pods, the record of the
// release and what controllers write are left out.
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

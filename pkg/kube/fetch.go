package kube

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// source is where an observation takes what it sees from.
type source int

const (
	// fromWatch asks the mirrors, and the API server for what they cannot tell.
	fromWatch source = iota
	// fromServer asks the API server.
	fromServer
	// fromMemory asks the mirrors only.
	fromMemory
)

// errUnknown says that the mirrors cannot tell.
var errUnknown = errors.New("it is not watched")

// reads count what observations read.
type reads struct{ watched, live atomic.Int64 }

// Reads are the numbers of reads so far that the memory of watches has answered, and that went to the API server.
func (c *Client) Reads() (watched, live int64) { return c.reads.watched.Load(), c.reads.live.Load() }

// query is a question for one object, nil when there is none.
type query[T object] struct {
	mirror *mirror[T]
	name   types.NamespacedName
	// expected: it must be there. That a watch has not shown it proves nothing, for it may be new: the API server is asked.
	expected bool
	// agreed: that it is gone is believed when the watch says so too.
	agreed bool
	// complete tells which objects the mirror has in full; nil for all.
	complete func(T) bool
	call     func(context.Context) (T, error)
	// answered is called when the API server has answered.
	answered func()
}

// settles reports whether what the mirror has answers the question.
func (q query[T]) settles(found T, asked source) bool {
	var none T
	if found == none {
		return !q.expected || asked == fromMemory
	}
	return q.complete == nil || q.complete(found)
}

func fetch[T object](ctx context.Context, o *observation, q query[T]) (found T, err error) {
	var none T
	if o.source != fromServer {
		if found, known := q.mirror.get(q.name); known && q.settles(found, o.source) {
			o.client.reads.watched.Add(1)
			return found, nil
		}
		if o.source == fromMemory {
			return none, errUnknown
		}
	}
	o.client.reads.live.Add(1)
	found, err = q.call(ctx)
	switch {
	case isNotFound(err) && q.agreed && q.mirror.shows(q.name):
		return none, fmt.Errorf("%w: %v", errUndecided, err)
	case isNotFound(err):
		q.mirror.absent(q.name)
		q.answered()
		return none, nil
	case IsForbidden(err), api.Unserved(err): // asking again would tell the same
		q.answered()
		return none, err
	case err != nil:
		return none, err
	}
	q.mirror.saw(found)
	q.answered()
	return found, nil
}

// list gets the objects that have a value in an index. since is the version of a list that the API server answered.
func list[T object](
	ctx context.Context, o *observation, answered func(), m *mirror[T], index string, values []string, call func(context.Context) (found []T, since string, err error),
) (found []T, since string, err error) {
	if o.source != fromServer {
		known := true
		for _, value := range values {
			some, ok := m.by(index, value)
			found, known = append(found, some...), known && ok
		}
		if known {
			o.client.reads.watched.Add(1)
			return found, "", nil
		}
		if o.source == fromMemory {
			return nil, "", errUnknown
		}
	}
	o.client.reads.live.Add(1)
	if found, since, err = call(ctx); err == nil || IsForbidden(err) {
		answered()
	}
	return found, since, err
}

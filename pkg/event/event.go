// Package event is the vocabulary of Sluice's CloudEvents: their types, ids and sources, and their wire format (CloudEvents 1.0, NATS protocol
// binding).
//
// It is not a transport: it opens no connection and does not know the subjects of NATS. The package that talks to NATS sends the result of Encode.
//
// Invariant: every event that Decode accepts is a valid CloudEvent, and Decode returns the event that Encode encoded.
package event

import (
	"fmt"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
)

// Event is a CloudEvent, specification version 1.0.
type Event = cloudevents.Event

// Rollout identifies the Rollout, or the FleetRollout, of an event.
type Rollout struct {
	Cluster, Namespace, Name string
	// UID is the metadata.uid of the object. ParseSource leaves it empty.
	UID string
	// Fleet: it is a FleetRollout, at the hub of a fleet.
	Fleet bool
}

// Resources in sources and subjects of events.
const (
	resourceRollouts = "rollouts"
	resourceFleets   = "fleetrollouts"
)

func (r Rollout) resource() string {
	if r.Fleet {
		return resourceFleets
	}
	return resourceRollouts
}

// Source returns the event attribute "source": /clusters/<cluster>/namespaces/<namespace>/rollouts/<name>. A FleetRollout has fleetrollouts in the place of
// rollouts.
func (r Rollout) Source() string {
	return "/clusters/" + r.Cluster + "/" + r.Subject()
}

// Subject returns the event attribute "subject": the source without the cluster.
func (r Rollout) Subject() string {
	return "namespaces/" + r.Namespace + "/" + r.resource() + "/" + r.Name
}

// partitionKey returns the event attribute "partitionkey".
func (r Rollout) partitionKey() string {
	key := r.Cluster + "/" + r.Namespace + "/" + r.Name
	if r.Fleet {
		key += "/fleet"
	}
	return key
}

// newEvent returns an event about the object, without data.
func (r Rollout) newEvent(kind, id string, at time.Time) Event {
	e := cloudevents.New()
	e.SetType(kind)
	e.SetSource(r.Source())
	e.SetSubject(r.Subject())
	e.SetID(id)
	e.SetTime(at)
	e.SetExtension("partitionkey", r.partitionKey())
	return e
}

// ParseSource is the inverse of Rollout.Source.
func ParseSource(source string) (Rollout, error) {
	rest, ok := strings.CutPrefix(source, "/clusters/")
	cluster, subject, _ := strings.Cut(rest, "/")
	r, err := ParseSubject(subject)
	if !ok || cluster == "" || err != nil {
		return Rollout{}, fmt.Errorf("parse event source %q: want /clusters/<cluster>/namespaces/<namespace>/rollouts/<name>", source)
	}
	r.Cluster = cluster
	return r, nil
}

// TypeOf returns the event attribute "type": dev.sluice.<noun>.<verb>.v1.
func TypeOf(noun, verb string) string { return "dev.sluice." + noun + "." + verb + ".v1" }

// Change is one transition of a Rollout's state machine.
type Change struct {
	// Noun and Verb name the event, for example "step" and "paused".
	Noun, Verb string
	// Seq is status.sluice.transitionSeq. It rises by one with each transition of one Rollout and never repeats. So the event's id is unique, and
	// consumers can order by it.
	Seq int64
	// At is the time at which the executor decided the transition.
	At time.Time
	// Traceparent is the W3C trace context that caused the transition, or empty.
	Traceparent string
	// Data is the event's body, encoded as JSON; nil means no body.
	Data any
}

// NewChange returns the event about a change of a Rollout. The same change always has the same id, <uid>/<seq>, even if it is sent many times.
func NewChange(of Rollout, c Change) (Event, error) {
	e := of.newEvent(TypeOf(c.Noun, c.Verb), fmt.Sprintf("%s/%d", of.UID, c.Seq), c.At)
	// Consumers compare sequences as strings; 19 digits hold any int64.
	e.SetExtension("sequence", fmt.Sprintf("%019d", c.Seq))
	if c.Traceparent != "" {
		e.SetExtension("traceparent", c.Traceparent)
	}
	if c.Data != nil {
		if err := e.SetData("application/json", c.Data); err != nil {
			return Event{}, fmt.Errorf("encode data of event %s: %w", e.ID(), err)
		}
	}
	if of.UID == "" || c.Noun == "" || c.Verb == "" || c.Seq < 0 {
		return Event{}, fmt.Errorf("build event for %s: uid, noun and verb must be set and the sequence must not be negative", of.Source())
	}
	if err := e.Validate(); err != nil {
		return Event{}, fmt.Errorf("build event for %s: %w", of.Source(), err)
	}
	return e, nil
}

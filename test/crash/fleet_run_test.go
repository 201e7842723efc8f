package crash

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue"
)

// selectionOfFleets is the number of plans of each story to play, unless all are wanted.
const selectionOfFleets = 15

// A release over a fleet must end like an undisturbed one, regardless of the failure of the hub, of a member, or of a message
// between them.
func TestWhateverGoesWrongInAFleetIsHealed(t *testing.T) {
	sideBySide(t)
	for _, story := range fleetStories() {
		t.Run(string(story), func(t *testing.T) {
			y := &fleetYard{fleetGrounds.of(t), story}
			clean, acts := rehearse(t, y)
			play(t, y, clean, slices.DeleteFunc(acts, func(a act) bool { return !story.plays(a) }), selectionOfFleets, nil)
		})
	}
}

// fleetYard is the environment for the runs of one story.
type fleetYard struct {
	*fleetGround
	story fleetStory
}

func (y *fleetYard) String() string { return "fleet " + string(y.story) }

func (y *fleetYard) always() []string { return y.story.always() }

// run plays one release by a plan, as soon as there is room for it.
func (y *fleetYard) run(ctx context.Context, p plan) (_ *outcome, err error) {
	name, leave := y.enter()
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	crew, err := newFleetCrew(y.fleetGround, newSupervisor(newJournal(p), name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, crew.close()) }()
	f := &fleetRun{fleetCrew: crew, story: y.story, histories: map[string]*history{}}
	for _, p := range y.planes() {
		f.histories[p.name] = p.witness.of(name)
		defer p.witness.forget(name)
	}
	if err := f.play(ctx); err != nil {
		return nil, err
	}
	return f.outcome(), nil
}

func (f *fleetRun) play(ctx context.Context) error {
	if err := f.ground.createNamespace(ctx, f.namespace); err != nil {
		return err
	}
	if err := f.join(ctx); err != nil {
		return err
	}
	err := f.start(ctx)
	if err == nil {
		err = f.playStory(ctx)
	}
	return errors.Join(err, f.end())
}

func (f *fleetRun) playStory(ctx context.Context) error {
	if err := f.release(ctx); err != nil {
		return err
	}
	f.lateness.end()
	q, work, err := f.connectQueue(ctx)
	if err != nil {
		return err
	}
	defer q.Close()
	look := func() error { return f.look(ctx, q, work) }
	if err := look(); err != nil { // it completes pending work
		return err
	}
	if err := f.settled(ctx); err != nil {
		return err
	}
	return f.rest(look)
}

// connectQueue connects to the queue of all components, and to the stream of its hints.
func (f *fleetRun) connectQueue(ctx context.Context) (q *queue.Queue, work jetstream.Stream, err error) {
	o := f.options("test")
	o.URL = f.nats.URL()
	if q, err = queue.Connect(ctx, o); err != nil {
		return nil, nil, err
	}
	conn, err := nats.Connect(o.URL, nats.UserInfo(o.User, o.Password), nats.NoReconnect(), nats.Timeout(*patience)) // it ends with the server
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, nil, err
	}
	work, err = js.Stream(ctx, queue.StreamWork)
	return q, work, err
}

// rest makes the components reconcile repeatedly after the end, which must write nothing. On a busy machine, heartbeats may
// come so late that the hub loses a member for a moment. It writes that, so the measurement begins again.
func (f *fleetRun) rest(look func() error) error {
	if err := look(); err != nil {
		return err
	}
	for {
		was, done := f.written(), len(f.all())
		for range resyncs {
			if err := look(); err != nil {
				return err
			}
		}
		late := f.all()[done:]
		switch n := f.written() - was; {
		case n == 0:
			return nil
		case !slices.ContainsFunc(late, act.isWrite): // its answer came late
		case !slices.ContainsFunc(late, func(a act) bool { return a.isWrite() && strings.Contains(a.kind, " fleetmembers/") }):
			f.breach("NoWritesAtRest: %d writes at rest, among %v", n, late)
			return nil
		}
	}
}

// look makes the hub and its members reconcile, and waits until they have.
func (f *fleetRun) look(ctx context.Context, q *queue.Queue, work jetstream.Stream) error {
	for _, key := range []queue.Key{{Cluster: hubName, Task: queue.TaskFleet}, {Cluster: "eu1"}, {Cluster: "eu2"}} {
		key.Namespace, key.Name = f.namespace, app
		if err := lookOnce(ctx, q, work, key); err != nil {
			return err
		}
	}
	return nil
}

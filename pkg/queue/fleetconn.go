package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// This file is the side of a cluster in the messages of a fleet. The cluster connects to the NATS of its hub, as a user without JetStream.

// HubConnection is the connection of a cluster to the NATS of its hub. It reconnects by itself. Its methods are safe for concurrent use.
type HubConnection struct {
	queue *Queue
	// connected is called after each connect.
	connected func()
}

// directGet is the prefix of the requests for the last message of a subject.
const directGet = "$JS.API.DIRECT.GET."

// ConnectHub begins to connect, and returns at once: a cluster works without its hub. connected is called after each connect, and must not block. The inbox of
// the connection is named after the cluster, because clusters must not read each other's answers. The caller must call Close.
func ConnectHub(o Options, cluster string, connected func()) (*HubConnection, error) {
	o.InboxPrefix = "_INBOX_" + cluster
	h := &HubConnection{queue: &Queue{log: o.Logger}, connected: connected}
	if h.queue.log == nil {
		h.queue.log = slog.New(slog.DiscardHandler)
	}
	h.queue.log = h.queue.log.With("nats", "hub")
	opts, err := h.queue.natsOptions(o, make(chan struct{}, 1), make(chan error, 1))
	if err == nil {
		opts = append(opts, nats.ConnectHandler(func(*nats.Conn) { connected() }), nats.ReconnectHandler(func(*nats.Conn) { connected() }),
			nats.ReconnectBufSize(-1)) // a message that waits in a buffer is old when it arrives
		h.queue.nc, err = nats.Connect(o.URL, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the NATS of the hub at %s: %w", redactURLs(o.URL), err)
	}
	return h, nil
}

// IsConnected reports whether the hub's NATS is reachable at this moment.
func (h *HubConnection) IsConnected() bool { return h.queue.IsConnected() }

// Close ends the connection.
func (h *HubConnection) Close() { h.queue.Close() }

// SubscribeOrders calls handle with each new message on some subjects. It works over reconnects.
func (h *HubConnection) SubscribeOrders(subjects string, handle func(subject string, data []byte)) error {
	if _, err := h.queue.nc.Subscribe(subjects, func(m *nats.Msg) { handle(m.Subject, m.Data) }); err != nil {
		return fmt.Errorf("listen for orders of the hub: %w", err)
	}
	return nil
}

// LastState returns the last message of a subject, zero if there is none.
func (h *HubConnection) LastState(ctx context.Context, stream, subject string) (FleetState, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	m, err := h.queue.nc.RequestWithContext(ctx, directGet+stream+"."+subject, nil)
	if err != nil {
		return FleetState{}, fmt.Errorf("read the last message of %s: %w", subject, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return FleetState{}, nil
	default:
		return FleetState{}, fmt.Errorf("read the last message of %s: NATS answers %s %s", subject, status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return FleetState{}, fmt.Errorf("read the last message of %s: its sequence is not a number: %w", subject, err)
	}
	return FleetState{Data: m.Data, Seq: seq}, nil
}

// PublishState publishes a message in the place of the last one that the caller knows, whose sequence is last, 0 for none. It returns the sequence of the new
// message. The error is [ErrFleetStale] if that is not the last one any more.
func (h *HubConnection) PublishState(ctx context.Context, subject string, data []byte, last uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request := nats.NewMsg(subject)
	request.Data = data
	request.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	reply, err := h.queue.nc.RequestMsgWithContext(ctx, request)
	if err != nil {
		return 0, fmt.Errorf("publish to %s: %w", subject, err)
	}
	var answer struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return 0, fmt.Errorf("publish to %s: the answer of NATS cannot be decoded: %w", subject, err)
	}
	switch {
	case answer.Error != nil && isWrongSequence(answer.Error):
		return 0, ErrFleetStale
	case answer.Error != nil:
		return 0, fmt.Errorf("publish to %s: %w", subject, answer.Error)
	case answer.Seq == 0:
		return 0, errors.New("publish to " + subject + ": NATS has not stored it")
	}
	return answer.Seq, nil
}

// SendBeat sends a heartbeat. It is lost if the hub's NATS is not reachable.
func (h *HubConnection) SendBeat(subject string, data []byte) error {
	if err := h.queue.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("send a heartbeat: %w", err)
	}
	return h.queue.nc.FlushTimeout(time.Second)
}

package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
	"sluice.dev/sluice/pkg/queue"
)

// serveEvents answers one request. It authenticates the caller first, so that unknown clients cost no more than a token review.
func (d *Receiver) serveEvents(w http.ResponseWriter, r *http.Request) {
	wait, err := requestedWait(r)
	if err != nil {
		d.refuseRequest(w, http.StatusBadRequest, errorSentence(err))
		return
	}
	caller, leave, ok := d.enterCaller(w, r, "send the same event again")
	if !ok {
		return
	}
	defer leave()
	items, batch, err := readEvents(r.Header, http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case errors.Is(err, errTooMuch):
		d.refuseRequest(w, http.StatusRequestEntityTooLarge, errorSentence(err))
		return
	case errors.Is(err, errNotEvent):
		d.refuseRequest(w, http.StatusUnsupportedMediaType, errorSentence(err))
		return
	case err != nil:
		d.writeMalformed(w, err)
		return
	}
	d.allowTime(w, wait+time.Duration(len(items)+1)*askTime)
	d.writeAnswers(w, d.submitEvents(r.Context(), caller, items, wait), batch)
}

// enterCaller authenticates the caller of a request, and counts the request until leave. It answers the request itself if the caller is unknown, or has too many
// requests open; later is what such a caller does when one has ended.
func (d *Receiver) enterCaller(w http.ResponseWriter, r *http.Request, later string) (caller Caller, leave func(), ok bool) {
	if caller, ok = d.authenticateCaller(w, r); !ok {
		return caller, nil, false
	}
	if !d.admitCaller(caller.Username) {
		d.writeRetryLater(w, http.StatusTooManyRequests, fmt.Sprintf("You have %d requests open already; %s when one has ended.", maxPerCaller, later))
		return caller, nil, false
	}
	return caller, func() { d.releaseCaller(caller.Username) }, true
}

// allowTime lets an answer take longer than the write deadline of the server, which is for immediate answers.
func (d *Receiver) allowTime(w http.ResponseWriter, within time.Duration) {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)); err != nil {
		d.Logger.Debug("set the time to answer", "error", err)
	}
}

// requestedWait returns the time that the caller wants to wait for the decision: ?wait=30s.
func requestedWait(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, fmt.Errorf("wait=%q is no time to wait: give one like 30s, up to %s", text, maxWait)
	}
	return wait, nil
}

// authenticateCaller returns the caller of a request. It answers the request itself when it cannot authenticate the caller.
func (d *Receiver) authenticateCaller(w http.ResponseWriter, r *http.Request) (Caller, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(r.Header.Values("Authorization")) != 1 {
		d.writeUnauthorized(w, "Say who you are: send a Kubernetes token as header Authorization: Bearer TOKEN.")
		return Caller{}, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	caller, err := d.AccessControl.Authenticate(ctx, token)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		d.writeUnauthorized(w, "The token is not valid: it may have expired, or be meant for another audience. Make a new one, as with: kubectl create token NAME --audience=sluice")
		return Caller{}, false
	case err != nil:
		d.Logger.Error("cannot find out whose token it is; the watcher must be allowed to create tokenreviews.authentication.k8s.io", "error", err)
		d.writeRetryLater(w, http.StatusServiceUnavailable, "The API server does not say whose token it is; send the same event again in a moment.")
		return Caller{}, false
	}
	return caller, true
}

// submitEvents sends the events to NATS in their order, and then waits for all decisions together.
func (d *Receiver) submitEvents(ctx context.Context, caller Caller, items []requestItem, wait time.Duration) []answer {
	ends := time.Now().Add(wait)
	answers := make([]answer, len(items))
	questions := make([]*queue.PendingApproval, len(items))
	for i, it := range items {
		answers[i], questions[i] = d.submitEvent(ctx, caller, it, wait > 0)
		if questions[i] != nil {
			defer questions[i].Close()
		}
	}
	ctx, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	for i, q := range questions {
		if q == nil {
			continue
		}
		if decided, err := q.WaitForDecision(ctx); err == nil {
			answers[i] = answerOf(items[i].event, decided)
		} else if !errors.Is(err, queue.ErrUndecided) {
			d.Logger.Error("cannot hear of decisions", "error", err)
		}
	}
	return answers
}

// submitEvent checks one event and sends it to NATS. The pending approval is nil when no decision is awaited.
func (d *Receiver) submitEvent(ctx context.Context, caller Caller, it requestItem, wait bool) (answer, *queue.PendingApproval) {
	a := answer{status: http.StatusBadRequest, id: it.event.ID(), source: it.event.Source()}
	if it.err != nil {
		return a.withRefusal(api.RefusalMalformed, "The event cannot be read: "+it.err.Error()+"."), nil
	}
	request, err := event.ParseRequest(it.event)
	if err != nil {
		return a.withRefusal(api.RefusalMalformed, "The event is neither an approval nor a release: "+err.Error()+"."), nil
	}
	about := request.About
	about.Cluster = d.ClusterName
	key := queue.KeyOf(about)
	if err := key.Validate(); err != nil {
		return a.withRefusal(api.RefusalMalformed, "The event's subject names no Rollout or FleetRollout: "+err.Error()+"."), nil
	}
	bound, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, p := range permissionsOf(request) {
		refused, ok := d.checkPermission(bound, a, caller, p)
		if !ok {
			return refused, nil
		}
	}
	return d.sendApproval(bound, a, key, principalOf(caller.Username), it.event, wait)
}

func (d *Receiver) sendApproval(ctx context.Context, a answer, key queue.Key, principal string, e event.Event, wait bool) (answer, *queue.PendingApproval) {
	var question *queue.PendingApproval
	var err error
	if wait {
		question, err = d.Queue.RequestApproval(ctx, key, principal, e)
	} else {
		err = d.Queue.SendApproval(ctx, key, principal, e)
	}
	switch {
	case errors.Is(err, queue.ErrBadApproval):
		return a.withRefusal(api.RefusalMalformed, errorSentence(err)), nil
	case errors.Is(err, queue.ErrUndecided):
		d.Logger.Error("NATS does not say whether it has stored an approval", "error", err)
		return a.withUnanswered(), nil
	case err != nil:
		d.Logger.Error("cannot hand an approval to NATS", "error", err)
		return a.withUnavailable("NATS does not take the event now; send the same event again in a moment."), nil
	}
	a.status = http.StatusAccepted
	a.message = "The event is stored and not decided yet. Send the same event again with ?wait=30s to hear the decision."
	return a, question
}

// writeRetryLater tells the caller to retry later.
func (d *Receiver) writeRetryLater(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	d.refuseRequest(w, status, message)
}

func (d *Receiver) writeUnauthorized(w http.ResponseWriter, message string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	d.refuseRequest(w, http.StatusUnauthorized, message)
}

// errorSentence returns an error as a sentence for callers.
func errorSentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

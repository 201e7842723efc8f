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

// take answers one request: who asks comes first, so that strangers cost nothing but a look at their token.
func (d *Door) take(w http.ResponseWriter, r *http.Request) {
	wait, err := waitOf(r)
	if err != nil {
		d.refuse(w, http.StatusBadRequest, sentence(err))
		return
	}
	caller, ok := d.caller(w, r)
	if !ok {
		return
	}
	if !d.enter(caller.Username) {
		d.later(w, http.StatusTooManyRequests, fmt.Sprintf("You have %d requests open already; send the same event again when one has ended.", maxOfOne))
		return
	}
	defer d.leave(caller.Username)
	items, batch, err := read(r.Header, http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case errors.Is(err, errTooMuch):
		d.refuse(w, http.StatusRequestEntityTooLarge, sentence(err))
		return
	case errors.Is(err, errStrange):
		d.refuse(w, http.StatusUnsupportedMediaType, sentence(err))
		return
	case err != nil:
		d.malformed(w, err)
		return
	}
	// The server's own bound on writing is for answers that are at hand.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + time.Duration(len(items)+1)*askTime)); err != nil {
		d.Logger.Debug("set the time to answer", "error", err)
	}
	d.write(w, d.decideAll(r.Context(), caller, items, wait), batch)
}

// waitOf is how long the caller wants to wait for the decision: ?wait=30s.
func waitOf(r *http.Request) (time.Duration, error) {
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

// caller finds out who asks, and answers when that cannot be told.
func (d *Door) caller(w http.ResponseWriter, r *http.Request) (Caller, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(r.Header.Values("Authorization")) != 1 {
		d.stranger(w, "Say who you are: send a Kubernetes token as header Authorization: Bearer TOKEN.")
		return Caller{}, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	caller, err := d.Gate.Who(ctx, token)
	switch {
	case errors.Is(err, ErrStranger):
		d.stranger(w, "The token is not valid: it may have expired, or be meant for another audience. Make a new one, as with: kubectl create token NAME --audience=sluice")
		return Caller{}, false
	case err != nil:
		d.Logger.Error("cannot find out whose token it is; the watcher must be allowed to create tokenreviews.authentication.k8s.io", "error", err)
		d.later(w, http.StatusServiceUnavailable, "The API server does not say whose token it is; send the same event again in a moment.")
		return Caller{}, false
	}
	return caller, true
}

// decideAll hands the events on in their order, and then waits for all decisions together.
func (d *Door) decideAll(ctx context.Context, caller Caller, items []item, wait time.Duration) []answer {
	ends := time.Now().Add(wait)
	answers := make([]answer, len(items))
	questions := make([]*queue.Question, len(items))
	for i, it := range items {
		answers[i], questions[i] = d.hand(ctx, caller, it, wait > 0)
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
		if decided, err := q.Answer(ctx); err == nil {
			answers[i] = answerOf(items[i].event, decided)
		} else if !errors.Is(err, queue.ErrUndecided) {
			d.Logger.Error("cannot hear of decisions", "error", err)
		}
	}
	return answers
}

// hand checks one event and hands it on. The question is nil when nothing is to be waited for.
func (d *Door) hand(ctx context.Context, caller Caller, it item, wait bool) (answer, *queue.Question) {
	a := answer{status: http.StatusBadRequest, id: it.event.ID(), source: it.event.Source()}
	if it.err != nil {
		return a.refused(api.RefusalMalformed, "The event cannot be read: "+it.err.Error()+"."), nil
	}
	_, about, err := event.ParseApproval(it.event)
	if err != nil {
		return a.refused(api.RefusalMalformed, "The event is no approval: "+err.Error()+"."), nil
	}
	key := queue.Key{Cluster: d.ClusterName, Namespace: about.Namespace, Name: about.Name}
	if err := key.Validate(); err != nil {
		return a.refused(api.RefusalMalformed, "The event's subject names no Rollout: "+err.Error()+"."), nil
	}
	bound, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	may, err := d.Gate.May(bound, caller, key.Namespace, key.Name)
	if err != nil {
		d.Logger.Error("cannot find out what a caller may do; the watcher must be allowed to create subjectaccessreviews.authorization.k8s.io", "error", err)
		return a.unavailable("The API server does not say what you may do; send the same event again in a moment."), nil
	}
	if !may {
		d.Logger.Info("an approval was refused at the door", "user", caller.Username, "namespace", key.Namespace, "rollout", key.Name, "id", a.id)
		a.status = http.StatusForbidden
		return a.refused(api.RefusalNotAllowed, fmt.Sprintf("User %q may not approve Rollout %s/%s. An administrator allows it with: "+
			"kubectl create rolebinding NAME -n %[2]s --clusterrole=sluice-approver --user=%[1]q", caller.Username, key.Namespace, key.Name)), nil
	}
	return d.send(bound, a, key, principal(caller.Username), it.event, wait)
}

func (d *Door) send(ctx context.Context, a answer, key queue.Key, principal string, e event.Event, wait bool) (answer, *queue.Question) {
	var question *queue.Question
	var err error
	if wait {
		question, err = d.Queue.Ask(ctx, key, principal, e)
	} else {
		err = d.Queue.Send(ctx, key, principal, e)
	}
	switch {
	case errors.Is(err, queue.ErrBadApproval):
		return a.refused(api.RefusalMalformed, sentence(err)), nil
	case errors.Is(err, queue.ErrUndecided):
		d.Logger.Error("NATS does not say whether it has stored an approval", "error", err)
		return a.unanswered(), nil
	case err != nil:
		d.Logger.Error("cannot hand an approval to NATS", "error", err)
		return a.unavailable("NATS does not take the event now; send the same event again in a moment."), nil
	}
	a.status = http.StatusAccepted
	a.message = "The event is stored and not decided yet. Send the same event again with ?wait=30s to hear the decision."
	return a, question
}

// later asks the caller to come again.
func (d *Door) later(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	d.refuse(w, status, message)
}

func (d *Door) stranger(w http.ResponseWriter, message string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	d.refuse(w, http.StatusUnauthorized, message)
}

// sentence makes an error what a caller reads.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

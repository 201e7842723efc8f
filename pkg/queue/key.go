package queue

import (
	"errors"
	"fmt"
	"strings"
)

// Key names one Rollout among all clusters that share a NATS.
type Key struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

const (
	workPrefix     = "sluice.work."
	timerPrefix    = "sluice.timer."
	eventPrefix    = "sluice.event."
	approvalPrefix = "sluice.approval."
	deadPrefix     = "sluice.dlq."
)

// String is <cluster>/<namespace>/<name>, for logs. ParseKey reads it back.
func (k Key) String() string { return k.Cluster + "/" + k.Namespace + "/" + k.Name }

// ParseKey reads what String wrote, and checks it.
func ParseKey(s string) (Key, error) {
	p := strings.Split(s, "/")
	if len(p) != 3 {
		return Key{}, fmt.Errorf("parse key %q: want <cluster>/<namespace>/<name>", s)
	}
	k := Key{p[0], p[1], p[2]}
	if err := k.Validate(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// Validate checks that each part can stand in a subject: 1 to 253 characters of
// a-z, 0-9, '-' and '.', which holds for whatever Kubernetes accepts as a name.
func (k Key) Validate() error {
	for _, part := range []struct{ what, value string }{
		{"cluster", k.Cluster}, {"namespace", k.Namespace}, {"name", k.Name},
	} {
		if err := validName(part.value); err != nil {
			return fmt.Errorf("%s %q: %w", part.what, part.value, err)
		}
	}
	return nil
}

func validName(s string) error {
	if s == "" || len(s) > 253 {
		return errors.New("must have 1 to 253 characters")
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.') {
			return errors.New("must consist of a-z, 0-9, '-' and '.'")
		}
	}
	return nil
}

// WorkSubject is where hints about the Rollout go.
func (k Key) WorkSubject() string { return workPrefix + k.tokens() }

// TimerSubject is where the Rollout's one timer waits.
func (k Key) TimerSubject() string { return timerPrefix + k.tokens() }

// EventSubject is where events about the Rollout go.
func (k Key) EventSubject() string { return eventPrefix + k.tokens() }

// DeadSubject is where dead letters about the Rollout lie.
func (k Key) DeadSubject() string { return deadPrefix + k.tokens() }

func (k Key) tokens() string {
	return token(k.Cluster) + "." + token(k.Namespace) + "." + token(k.Name)
}

// token makes a name one subject token. Kubernetes names cannot contain '_', so
// that this is a bijection.
func token(name string) string { return strings.ReplaceAll(name, ".", "_") }

// ParseSubject is the inverse of WorkSubject, TimerSubject, EventSubject and
// DeadSubject.
func ParseSubject(subject string) (Key, error) {
	for _, prefix := range []string{workPrefix, timerPrefix, eventPrefix, deadPrefix} {
		rest, ok := strings.CutPrefix(subject, prefix)
		if !ok {
			continue
		}
		p := strings.Split(rest, ".")
		if len(p) != 3 {
			break
		}
		for i := range p {
			p[i] = strings.ReplaceAll(p[i], "_", ".")
		}
		k := Key{p[0], p[1], p[2]}
		if err := k.Validate(); err != nil {
			return Key{}, fmt.Errorf("parse subject %q: %w", subject, err)
		}
		return k, nil
	}
	return Key{}, fmt.Errorf("parse subject %q: want sluice.<work|timer|event|dlq>.<cluster>.<namespace>.<name>", subject)
}

package queue

import (
	"errors"
	"fmt"
	"strings"
)

// Key names one piece of work on a Rollout or a TrafficRouting, among all clusters that share a NATS.
type Key struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Task is one of the tasks below. The tasks of one Rollout are independent: each has its own hints, timer, lease
	// and dead letters.
	Task string `json:"task,omitempty"`
}

// Tasks.
const (
	// TaskRelease carries the release out. Executors do it.
	TaskRelease = ""
	// TaskAnalysis measures the release. Analyzers do it.
	TaskAnalysis = "analysis"
	// TaskRouting carries out a TrafficRouting, whose name is the name of the key. Executors do it, in addition to
	// releases.
	TaskRouting = "routing"
	// TaskFleet carries out a FleetRollout, whose name is the name of the key, in the cluster of a hub. Executors do it that have the key of the hub.
	TaskFleet = "fleet"
)

const (
	workPrefix    = "sluice.work."
	timerPrefix   = "sluice.timer."
	measurePrefix = "sluice.measure."
	tickPrefix    = "sluice.tick."
	// An executor without the key of a hub does not read these two.
	fleetWorkPrefix  = "sluice.fleet.work."
	fleetTimerPrefix = "sluice.fleet.timer."
	eventPrefix      = "sluice.event."
	fleetEventPrefix = "sluice.fleet.event."
	approvalPrefix   = "sluice.approval."
	// Requests about FleetRollouts. A user of NATS who may approve releases of one cluster has no right to them.
	fleetRequestPrefix = "sluice.fleet.request."
	deadPrefix         = "sluice.dlq."
)

// String returns <cluster>/<namespace>/<name>, and /<task> unless that is the release, for logs.
func (k Key) String() string {
	s := k.Cluster + "/" + k.Namespace + "/" + k.Name
	if k.Task != TaskRelease {
		s += "/" + k.Task
	}
	return s
}

// Validate checks that the task exists, and that each other part can stand in a subject. A part has 1 to 253 characters
// of a-z, 0-9, '-' and '.', as every name in Kubernetes has.
func (k Key) Validate() error {
	if err := validTask(k.Task); err != nil {
		return err
	}
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

func validTask(task string) error {
	switch task {
	case TaskRelease, TaskAnalysis, TaskRouting, TaskFleet:
		return nil
	}
	return fmt.Errorf("task %q: must be %q, %q, %q or nothing", task, TaskAnalysis, TaskRouting, TaskFleet)
}

// WorkSubject is the subject of hints about the work.
func (k Key) WorkSubject() string { return hintPrefix(k.Task) + k.taskTokens() }

// TimerSubject is the subject of the work's one timer.
func (k Key) TimerSubject() string {
	switch k.Task {
	case TaskAnalysis:
		return tickPrefix + k.rolloutTokens()
	case TaskFleet:
		return fleetTimerPrefix + k.rolloutTokens()
	}
	return timerPrefix + k.taskTokens()
}

// EventSubject is the subject of events about the Rollout, regardless of the task, or about the FleetRollout.
func (k Key) EventSubject() string {
	if k.Task == TaskFleet {
		return fleetEventPrefix + k.rolloutTokens()
	}
	return eventPrefix + k.rolloutTokens()
}

// DeadLetterSubject is the subject of dead letters about the work.
func (k Key) DeadLetterSubject() string { return deadPrefix + k.allTokens() }

func hintPrefix(task string) string {
	switch task {
	case TaskAnalysis:
		return measurePrefix
	case TaskFleet:
		return fleetWorkPrefix
	}
	return workPrefix
}

// taskTokens name the work among the work of the same consumers. A fourth token tells routings and releases apart for
// executors.
func (k Key) taskTokens() string {
	if k.Task == TaskRouting {
		return k.allTokens()
	}
	return k.rolloutTokens()
}

// rolloutTokens name the Rollout.
func (k Key) rolloutTokens() string {
	return subjectToken(k.Cluster) + "." + subjectToken(k.Namespace) + "." + subjectToken(k.Name)
}

// allTokens name the work: the task is a fourth token, which releases do not have.
func (k Key) allTokens() string {
	if k.Task == TaskRelease {
		return k.rolloutTokens()
	}
	return k.rolloutTokens() + "." + k.Task
}

// subjectToken turns a name into one subject token. Kubernetes names cannot contain '_', so this is a bijection.
func subjectToken(name string) string { return strings.ReplaceAll(name, ".", "_") }

// ParseSubject is the inverse of WorkSubject, TimerSubject, EventSubject and DeadLetterSubject. The subject of an event
// of a Rollout names no task, so its key has the task of the release.
func ParseSubject(subject string) (Key, error) {
	for _, prefix := range []string{workPrefix, timerPrefix, measurePrefix, tickPrefix, fleetWorkPrefix, fleetTimerPrefix, fleetEventPrefix, eventPrefix, deadPrefix} {
		rest, ok := strings.CutPrefix(subject, prefix)
		if !ok {
			continue
		}
		p := strings.Split(rest, ".")
		task := TaskRelease
		switch {
		case prefix == measurePrefix || prefix == tickPrefix:
			task = TaskAnalysis
		case prefix == fleetWorkPrefix || prefix == fleetTimerPrefix || prefix == fleetEventPrefix:
			task = TaskFleet
		case prefix == deadPrefix && len(p) == 4 && p[3] != TaskRelease:
			p, task = p[:3], p[3]
		case (prefix == workPrefix || prefix == timerPrefix) && len(p) == 4 && p[3] == TaskRouting:
			p, task = p[:3], p[3]
		}
		if len(p) != 3 {
			break
		}
		k, err := parseTokens(p, task)
		if err != nil {
			return Key{}, fmt.Errorf("parse subject %q: %w", subject, err)
		}
		return k, nil
	}
	return Key{}, fmt.Errorf("parse subject %q: want sluice.<work|timer|measure|tick|fleet.work|fleet.timer|fleet.event|event>.<cluster>.<namespace>.<name>, sluice.<work|timer>.<cluster>.<namespace>.<name>.routing, or sluice.dlq.<cluster>.<namespace>.<name>[.<task>]", subject)
}

// parseTokens reads the three tokens that name a Rollout.
func parseTokens(p []string, task string) (Key, error) {
	name := func(token string) string { return strings.ReplaceAll(token, "_", ".") }
	k := Key{Cluster: name(p[0]), Namespace: name(p[1]), Name: name(p[2]), Task: task}
	return k, k.Validate()
}

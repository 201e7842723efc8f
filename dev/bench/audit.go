package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Requests is the number of equal requests of the controller.
type Requests struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// By is the last word of the user's name, such as the name of a service account.
	By         string  `json:"by"`
	Count      int     `json:"count"`
	PerRelease float64 `json:"perRelease"`
}

// Traffic counts the requests to the API server during a measurement. All counts except Driver and Native are about the controller.
type Traffic struct {
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	// Events and PodLabels are writes too; they count separately.
	Events    int `json:"events"`
	PodLabels int `json:"podLabels"`
	// Refused counts answers to the controller from 400 on, by code. A 404 may be a useful answer.
	Refused map[int]int `json:"refused,omitempty"`
	// Driver counts the requests of the bench that deploy and approve, and Native the requests of all others: the cluster's own controllers.
	Driver   int        `json:"driver"`
	Native   int        `json:"native"`
	Requests []Requests `json:"requests"`
}

// request is the counted part of an audit event.
type request struct {
	Verb, RequestURI, UserAgent string
	User                        struct{ Username string }
	ImpersonatedUser            *struct{ Username string }
	ObjectRef                   *struct{ Resource, Subresource string }
	ResponseStatus              struct{ Code int }
}

func (r request) user() string {
	if r.ImpersonatedUser != nil {
		return r.ImpersonatedUser.Username
	}
	return r.User.Username
}

func (r request) resource() string {
	switch {
	case r.ObjectRef == nil:
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return path // discovery
	case r.ObjectRef.Subresource != "":
		return r.ObjectRef.Resource + "/" + r.ObjectRef.Subresource
	}
	return r.ObjectRef.Resource
}

// auditLog reads new lines of an audit log.
type auditLog struct {
	path  string
	users []string
}

// end returns the current length of the log.
func (l auditLog) end() int64 {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0 // the log is empty or does not exist
	}
	return info.Size()
}

// since counts the requests that were answered after the log had the length offset. A line that was partly written then belongs to an earlier request.
func (l auditLog) since(offset int64) (*Traffic, error) {
	if l.path == "" {
		return nil, nil
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<20)
	if offset > 0 {
		if _, err := file.Seek(offset-1, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if _, err := lines.ReadBytes('\n'); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
	}
	return count(lines, l.users)
}

// count reads audit events, one in each line. A last line without its end belongs to a request without an answer yet.
func count(lines *bufio.Reader, users []string) (*Traffic, error) {
	traffic := &Traffic{Refused: map[int]int{}}
	counted := map[Requests]int{}
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("decode the audit log: %w", err)
		}
		traffic.add(r, users, counted)
	}
	for key, n := range counted {
		key.Count = n
		traffic.Requests = append(traffic.Requests, key)
	}
	slices.SortFunc(traffic.Requests, func(a, b Requests) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.By+a.Verb+a.Resource, b.By+b.Verb+b.Resource))
	})
	return traffic, nil
}

func (t *Traffic) add(r request, users []string, counted map[Requests]int) {
	user, resource := r.user(), r.resource()
	switch {
	case strings.HasPrefix(r.UserAgent, userAgent):
		t.Driver++
		return
	case !slices.ContainsFunc(users, func(prefix string) bool { return strings.HasPrefix(user, prefix) }):
		t.Native++
		return
	}
	switch {
	case r.Verb == "get" || r.Verb == "list" || r.Verb == "watch":
		t.Reads++
	case resource == "events":
		t.Events++
	case resource == "pods" && r.Verb == "patch":
		t.PodLabels++
	default:
		t.Writes++
	}
	if r.ResponseStatus.Code >= 400 {
		t.Refused[r.ResponseStatus.Code]++
	}
	counted[Requests{Verb: r.Verb, Resource: resource, By: user[strings.LastIndex(user, ":")+1:]}]++
}

// requests counts all requests of the controller but those that look for the admission policies, which come at an interval.
func (t *Traffic) requests() (n int) {
	for _, r := range t.Requests {
		if !strings.HasPrefix(r.Resource, "mutatingadmissionpolic") {
			n += r.Count
		}
	}
	return n
}

// perRelease computes the counts for each release.
func (t *Traffic) perRelease(releases int) {
	for i := range t.Requests {
		t.Requests[i].PerRelease = float64(t.Requests[i].Count) / float64(releases)
	}
}

// codes describes the refusals.
func (t *Traffic) codes() string {
	var words []string
	for _, code := range slices.Sorted(maps.Keys(t.Refused)) {
		words = append(words, fmt.Sprintf("%d times %d", t.Refused[code], code))
	}
	return strings.Join(words, ", ")
}

const (
	// quietFor is the time without requests after which a controller counts as quiet.
	quietFor = time.Second
	// quietAfterStart is longer, because starting processes send requests, work, and send requests again.
	quietAfterStart = 5 * time.Second
	// quietLimit bounds the wait for a controller that is never quiet.
	quietLimit = 5 * time.Minute
)

// awaitQuiet returns when the controller has sent no request for quietFor. Without an audit log it waits for that time.
func (l auditLog) awaitQuiet(ctx context.Context, quietFor time.Duration) error {
	offset := l.end()
	for limit := time.Now().Add(quietLimit); time.Now().Before(limit); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(quietFor):
		}
		traffic, err := l.since(offset)
		if err != nil {
			return err
		}
		if traffic == nil || len(traffic.Requests) == 0 {
			return nil
		}
		offset = l.end()
	}
	return nil
}

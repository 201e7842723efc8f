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

// Requests are how often the controller asked for one thing.
type Requests struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// By is the last word of the user's name, such as the name of a service account.
	By         string  `json:"by"`
	Count      int     `json:"count"`
	PerRelease float64 `json:"perRelease"`
}

// Traffic is what the API server was asked while something was measured. All but Refused and Other are the controller's.
type Traffic struct {
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	// Events and PodLabels are writes as well; they are counted apart.
	Events    int `json:"events"`
	PodLabels int `json:"podLabels"`
	// Refused counts answers to the controller from 400 on, by code. A 404 may be what it wanted to know.
	Refused map[int]int `json:"refused,omitempty"`
	// Driver is what the one who deploys and approves asked, Native what all others did: the cluster's own controllers.
	Driver   int        `json:"driver"`
	Native   int        `json:"native"`
	Requests []Requests `json:"requests"`
}

// request is the part of an audit event that is counted.
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

// auditLog reads what was added to an audit log.
type auditLog struct {
	path  string
	users []string
}

// end is how long the log is now.
func (l auditLog) end() int64 {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0 // nothing was logged yet, or there is no log
	}
	return info.Size()
}

// since counts the requests that were answered after the log was so long. A line that was being written then is of one answered before.
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

// count reads audit events, one a line. A last line without its end is of a request that is not answered yet.
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

// perRelease fills in the shares of each release.
func (t *Traffic) perRelease(releases int) {
	for i := range t.Requests {
		t.Requests[i].PerRelease = float64(t.Requests[i].Count) / float64(releases)
	}
}

// codes are the refusals in words.
func (t *Traffic) codes() string {
	var words []string
	for _, code := range slices.Sorted(maps.Keys(t.Refused)) {
		words = append(words, fmt.Sprintf("%d times %d", t.Refused[code], code))
	}
	return strings.Join(words, ", ")
}

const (
	// quietFor is how long a controller must have asked for nothing to be called quiet.
	quietFor = time.Second
	// quietAfterStart is longer: processes that start ask, think, and ask again.
	quietAfterStart = 5 * time.Second
	// quietLimit bounds the wait for one that never is.
	quietLimit = 5 * time.Minute
)

// awaitQuiet returns when the controller has asked for nothing for so long. Without an audit log it waits for just that.
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

package app

import (
	"sync"
	"time"
)

// Ledger counts the answers of all servers that share it, by version. The zero value is ready.
type Ledger struct {
	mu   sync.Mutex
	told map[string]*account
}

type account struct {
	requests, errors int
	hit              map[string]bool
	last             time.Time
}

// Count holds the answers of one version.
type Count struct {
	// Requests counts all answered requests, and Errors the answers with an error.
	Requests, Errors int
	// UsersHit is the number of users with at least one error.
	UsersHit int
	// Last is the time of the last answer.
	Last time.Time
}

func (l *Ledger) note(version, user string, fine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = map[string]*account{}
	}
	a := l.told[version]
	if a == nil {
		a = &account{hit: map[string]bool{}}
		l.told[version] = a
	}
	a.requests++
	a.last = time.Now()
	if !fine {
		a.errors++
		a.hit[user] = true
	}
}

// Total returns the number of requests that all versions answered.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for version, a := range l.told {
		if version != "" {
			sum += a.requests
		}
	}
	return sum
}

// Of returns the count of a version. The version "" has the requests that no version could answer.
func (l *Ledger) Of(version string) Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.told[version]
	if a == nil {
		return Count{}
	}
	return Count{Requests: a.requests, Errors: a.errors, UsersHit: len(a.hit), Last: a.last}
}

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

// Count is what one version has answered.
type Count struct {
	// Requests are all requests that it answered, Errors those with an error.
	Requests, Errors int
	// UsersHit are the different users who got an error.
	UsersHit int
	// Last is when it answered last.
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

// Total is how many requests were answered by any version.
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

// Of is what a version has answered so far. Requests that no version was there for are those of "".
func (l *Ledger) Of(version string) Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.told[version]
	if a == nil {
		return Count{}
	}
	return Count{Requests: a.requests, Errors: a.errors, UsersHit: len(a.hit), Last: a.last}
}

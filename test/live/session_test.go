//go:build linux

package live

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/test/world"
)

// sessions is the number of users who keep their cookies, visits the number of requests that each of them sends at a
// time.
const sessions, visits = 40, 10

// visitor is a user who keeps cookies.
type visitor struct {
	jar  http.CookieJar
	seen map[string]int // answers by version
}

// visitors send requests through the gateway, each with the cookies that it got.
func (s *shop) visitors() []*visitor {
	s.Helper()
	all := make([]*visitor, sessions)
	for i := range all {
		jar, err := cookiejar.New(nil)
		if err != nil {
			s.Fatal(err)
		}
		all[i] = &visitor{jar: jar}
	}
	return all
}

// visit makes each of them send requests, and returns the number of visitors with answers of both versions.
func (s *shop) visit(all []*visitor) (torn int) {
	s.Helper()
	for _, v := range all {
		v.seen = map[string]int{}
		by := s.client.strangers()
		by.jar = v.jar
		for range visits {
			answer, err := by.ask(s.Context(), nil)
			if err != nil {
				s.Fatal(err)
			}
			v.seen[answer]++
		}
		if len(v.seen) > 1 {
			torn++
		}
	}
	return torn
}

// of returns the number of visitors whose last answer came from a version.
func of(all []*visitor, version string) (n int) {
	for _, v := range all {
		if v.seen[version] > 0 {
			n++
		}
	}
	return n
}

// If a kind keeps sticky sessions, a user with the gateway's cookie stays with one version. It does not matter whether
// the user got the cookie before the step or during it.
func TestUsersStayWithOneVersionWhereTheKindKeepsSessions(t *testing.T) {
	t.Parallel()
	for _, p := range planes {
		if p.sticky == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.route = p.sticky.Replace(p.route)
			p.audiences, p.mirror, p.tag = nil, 0, ""
			s := open(t, p)
			old := s.visitors()
			s.visit(old)
			s.release("web:2")
			s.await(world.PausedAt(1))
			s.heard()
			young := s.visitors()
			s.visit(young)
			for moment, all := range map[string][]*visitor{"before the step": old, "within it": young} {
				torn := s.visit(all)
				s.Logf("of %d users with a cookie from %s, %d got answers of both versions, %d of the new one", sessions, moment, torn, of(all, "web:2"))
				if torn > 0 {
					s.Errorf("of %d users with a cookie from %s, %d got answers of both versions", sessions, moment, torn)
				}
			}
			if n := of(young, "web:2"); n == 0 || n == sessions {
				s.Errorf("%d of %d new users got the new version at 20%%", n, sessions)
			}
			s.release("web:1")
			s.wantEnd(0)
		})
	}
}

// heard waits until the gateway sends some requests to the new version.
func (s *shop) heard() {
	s.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for told := time.Now(); time.Since(told) < late; <-tick.C {
		if s.client.burst(s.Context(), 10*users, nil).answers["web:2"] > 0 {
			return
		}
	}
	s.Fatal("the gateway has never sent a request to the new version")
}

func sticky(in, with string) *strings.Replacer { return strings.NewReplacer(in, with) }

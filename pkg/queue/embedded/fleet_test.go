package embedded_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/natsdir"
)

// patience bounds every wait; none should need it.
const patience = 10 * time.Minute

var members = map[string]string{"eu1": "secret of eu1", "eu2": `a "secret" of $eu2 {}`}

// connect connects as a user, and collects the errors of the server.
func connect(t *testing.T, s *embedded.Server, user, password, inbox string) (nc *nats.Conn, denied chan error) {
	t.Helper()
	denied = make(chan error, 10)
	nc, err := nats.Connect(s.URL(), nats.UserInfo(user, password), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc, denied
}

// startHub starts a server with members and the stream of their answers.
func startHub(t *testing.T) (*embedded.Server, jetstream.JetStream) {
	t.Helper()
	s := startServer(t, embedded.Options{Dir: natsdir.ForTest(t), Members: members})
	hub, _ := connect(t, s, s.User(), s.Password(), "_INBOX")
	js, err := jetstream.New(hub)
	if err != nil {
		t.Fatal(err)
	}
	up := jetstream.StreamConfig{Name: "SLUICE_FLEET_UP", Subjects: []string{"sluice.fleet.up.>"}, MaxMsgsPerSubject: 1, AllowDirect: true}
	if _, err := js.CreateStream(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// The tests of deploy/nats also play all permissions on this server.
func TestAMemberMayDoItsWork(t *testing.T) {
	s, js := startHub(t)
	beats, err := js.Conn().SubscribeSync("sluice.fleet.beat.*")
	if err == nil {
		err = js.Conn().FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		nc, _ := connect(t, s, name, members[name], "_INBOX_"+name)
		subject := "sluice.fleet.up." + name + ".shop.checkout"
		if ack, err := nc.Request(subject, []byte("done"), patience); err != nil || !strings.Contains(string(ack.Data), `"stream":"SLUICE_FLEET_UP"`) {
			t.Errorf("%s publishes an answer: %+v, %v", name, ack, err)
		}
		if m, err := nc.Request("$JS.API.DIRECT.GET.SLUICE_FLEET_UP."+subject, nil, patience); err != nil || string(m.Data) != "done" {
			t.Errorf("%s reads its answer: %+v, %v", name, m, err)
		}
		orders, err := nc.SubscribeSync("sluice.fleet.down." + name + ".*.*")
		if err == nil {
			err = nc.Publish("sluice.fleet.beat."+name, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, err := beats.NextMsg(patience); err != nil || m.Subject != "sluice.fleet.beat."+name {
			t.Errorf("%s sends a heartbeat: %+v, %v", name, m, err)
		}
		if err := js.Conn().Publish("sluice.fleet.down."+name+".shop.checkout", []byte("begin")); err != nil {
			t.Fatal(err)
		}
		if m, err := orders.NextMsg(patience); err != nil || string(m.Data) != "begin" {
			t.Errorf("%s hears an order: %+v, %v", name, m, err)
		}
	}
}

func TestAMemberMayNotDoTheWorkOfAnotherOne(t *testing.T) {
	s, js := startHub(t)
	nc, denied := connect(t, s, "eu1", members["eu1"], "_INBOX_eu1")
	for _, subject := range []string{
		"sluice.fleet.up.eu2.shop.checkout", "sluice.fleet.beat.eu2", "sluice.fleet.down.eu2.shop.checkout", "sluice.work.default.shop.checkout",
		"$JS.API.DIRECT.GET.SLUICE_FLEET_UP.sluice.fleet.up.eu2.shop.checkout", "$JS.API.STREAM.INFO.SLUICE_FLEET_UP",
	} {
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		wantDenied(t, denied, `Publish to "`+subject+`"`)
	}
	for _, subject := range []string{"sluice.fleet.down.eu2.*.*", "sluice.fleet.down.>", "_INBOX_eu2.>", "_INBOX.>", ">"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		wantDenied(t, denied, `Subscription to "`+subject+`"`)
	}
	up, err := js.Stream(t.Context(), "SLUICE_FLEET_UP")
	if err != nil {
		t.Fatal(err)
	}
	if n := up.CachedInfo().State.LastSeq; n != 0 {
		t.Errorf("%d messages of it are stored", n)
	}
}

func wantDenied(t *testing.T, denied <-chan error, what string) {
	t.Helper()
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the server says %v", what, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: the server says nothing", what)
	}
}

func TestAMemberNeedsItsOwnPassword(t *testing.T) {
	s := startServer(t, embedded.Options{Dir: natsdir.ForTest(t), Members: members})
	for user, password := range map[string]string{"eu1": members["eu2"], "eu2": "PASSWORD", s.User(): "PASSWORD", "eu3": members["eu1"], "": ""} {
		if nc, err := nats.Connect(s.URL(), nats.UserInfo(user, password)); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("user %q with the password %q: %v", user, password, err)
			if nc != nil {
				nc.Close()
			}
		}
	}
}

func TestWhatAMemberNeeds(t *testing.T) {
	for name, members := range map[string]map[string]string{
		"a password":                              {"eu1": ""},
		"a name without dots":                     {"eu.1": "secret"},
		"a name that selects no subjects":         {"*": "secret"},
		"a name without marks of a configuration": {`eu1" {}`: "secret"},
		"another name than the streams' account":  {"SLUICE": "secret"},
		"another name than the user for Sluice":   {"sluice": "secret"},
		"a name":                                  {"": "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := embedded.Start(embedded.Options{Dir: natsdir.ForTest(t), Members: members})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "the member") {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}

func TestWithoutMembersTheAccountStays(t *testing.T) {
	dir := natsdir.ForTest(t)
	s := startServer(t, embedded.Options{Dir: dir, Members: map[string]string{}})
	nc, _ := connect(t, s, s.User(), s.Password(), "_INBOX")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/nats/jetstream/$G/streams/KEPT"); err != nil {
		t.Error(err)
	}
}

// The permissions of the two servers are the same, word for word.
func TestMembersHaveTheAccountsOfTheShippedConfiguration(t *testing.T) {
	fleet := strings.NewReplacer("$NATS_PASSWORD_MEMBER_EU1", "PASSWORD").Replace(statements(t, "../../../deploy/nats/fleet.conf"))
	if diff := cmp.Diff(fleet, strings.TrimSpace(embedded.MemberAccount)); diff != "" {
		t.Errorf("the account of a member (-deploy/nats +embedded):\n%s", diff)
	}
	var want, got []string
	for line := range strings.Lines(statements(t, "../../../deploy/nats/users.conf")) {
		if strings.Contains(line, "account_token_position") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(embedded.StreamsAccount) {
		if strings.Contains(line, "account_token_position") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the exports (-deploy/nats +embedded):\n%s", diff)
	}
}

// statements returns the lines of a configuration without comments.
func statements(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, ""))
}

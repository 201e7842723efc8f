package fleethub

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/fleet"
	"sluice.dev/sluice/pkg/fleetmessage"
)

func TestWhatTheStatusOfAMemberSays(t *testing.T) {
	t.Parallel()
	at := func(before time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(-before)} }
	skew := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	// ready is the status of a member that was heard some time ago.
	ready := func(lastSeen *metav1.Time) api.FleetMemberStatus {
		return api.FleetMemberStatus{
			Phase: api.FleetMemberReady, LastSeen: lastSeen, UID: "uid-of-eu1", Version: "v0.3.0", Enforcement: api.FleetEnforcementPolicy, HubKeys: []string{"K1"}, ClockSkew: skew(0),
		}
	}
	with := func(s api.FleetMemberStatus, change func(*api.FleetMemberStatus)) api.FleetMemberStatus {
		change(&s)
		return s
	}
	// heard is a heartbeat that has come some time ago.
	heard := func(before time.Duration) beat {
		return beat{
			of: "m", heard: start.Add(-before), senders: map[string]sender{"p1": {number: 1, heard: start.Add(-before)}}, uid: "uid-of-eu1", version: "v0.3.0", enforcement: api.FleetEnforcementPolicy, hubKeys: []string{"K1"},
		}
	}
	but := func(b beat, change func(*beat)) *beat { change(&b); return &b }
	as := func(b beat) *beat { return &b }
	const (
		taken      = "Another cluster sends messages under this name by the same key; stop it, and give it a key and a name of its own: sluice fleet join"
		silent     = "The hub does not hear the cluster; see that its executors run with --fleet-member=eu1 and reach the hub's NATS"
		unenforced = "Nothing holds changes in the cluster, so it gets no permit; install the policies there, for the namespace of its executors: sluice install --print --namespace NAMESPACE --part policies | kubectl apply --server-side -f -"
	)
	for name, c := range map[string]struct {
		status  api.FleetMemberStatus
		beat    *beat
		started time.Duration // before now, an hour if 0
		want    api.FleetMemberStatus
		hint    bool
	}{
		"a cluster that is heard for the first time is ready": {
			beat: as(heard(2 * time.Second)), want: ready(at(2 * time.Second)), hint: true,
		},
		"a heartbeat like the ones before changes nothing": {
			status: ready(at(59 * time.Second)), beat: as(heard(0)), want: ready(at(59 * time.Second)),
		},
		"the time is written once a minute": {
			status: ready(at(time.Minute)), beat: as(heard(0)), want: ready(at(0)),
		},
		"another version and another key are written": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.version, b.hubKeys = "v0.4.0", []string{"K1", "K2"} }),
			want: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.Version, s.HubKeys = "v0.4.0", []string{"K1", "K2"} }),
		},
		"a cluster that nothing enforces is told how to change that": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.enforcement = api.FleetEnforcementNone }),
			want: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.Enforcement, s.Message = api.FleetEnforcementNone, unenforced }),
		},
		"a refused order is shown": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.refused = "shop/checkout: it is old" }),
			want: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) {
				s.Message = "The cluster refuses an order: shop/checkout: it is old"
			}),
		},
		"a clock that is ahead is shown": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.senders["p2"] = sender{1, b.heard, 90*time.Second + 300*time.Millisecond} }),
			want: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.ClockSkew = skew(90 * time.Second) }),
		},
		"a second more or less of the clock is nothing new": {
			status: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.ClockSkew = skew(91 * time.Second) }),
			beat:   but(heard(0), func(b *beat) { b.senders["p2"] = sender{1, b.heard, 90 * time.Second} }),
			want:   with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.ClockSkew = skew(91 * time.Second) }),
		},
		"the clock of a process that is gone no longer counts": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.senders["p2"] = sender{1, b.heard.Add(-fleet.UnreachableAfter), 90 * time.Second} }),
			want: ready(at(time.Second)),
		},
		"29 seconds of silence are nothing": {
			status: ready(at(time.Minute - time.Second)), beat: as(heard(29 * time.Second)), want: ready(at(time.Minute - time.Second)),
		},
		"after 30 seconds of silence the cluster is unreachable": {
			status: ready(at(40 * time.Second)), beat: as(heard(30 * time.Second)),
			want: with(ready(at(40*time.Second)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberUnreachable, silent }), hint: true,
		},
		"a cluster whose heartbeats are refused is told why": {
			status: ready(at(40 * time.Second)), beat: but(heard(30*time.Second), func(b *beat) {
				b.refusal, b.refusedAt = "the signature does not belong to it", start.Add(-29*time.Second)
			}),
			want: with(ready(at(40*time.Second)), func(s *api.FleetMemberStatus) {
				s.Phase, s.Message = api.FleetMemberUnreachable, "The hub refuses the heartbeats of the cluster: the signature does not belong to it"
			}), hint: true,
		},
		"a refusal of 30 seconds ago says nothing": {
			status: ready(at(40 * time.Second)), beat: but(heard(30*time.Second), func(b *beat) {
				b.refusal, b.refusedAt = "the signature does not belong to it", start.Add(-30*time.Second)
			}),
			want: with(ready(at(40*time.Second)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberUnreachable, silent }), hint: true,
		},
		"a cluster that comes back is ready again": {
			status: with(ready(at(10*time.Second)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberUnreachable, silent }), beat: as(heard(0)),
			want: ready(at(0)), hint: true,
		},
		"a process that has just started knows nothing": {
			status: ready(at(time.Hour)), started: 29 * time.Second, want: ready(at(time.Hour)),
		},
		"a process that has listened long enough knows that nobody is there": {
			status: ready(at(time.Hour)), started: 30 * time.Second,
			want: with(ready(at(time.Hour)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberUnreachable, silent }), hint: true,
		},
		"what another process hears counts": {
			status: ready(at(59 * time.Second)), want: ready(at(59 * time.Second)),
		},
		"what another process heard a minute ago no longer counts": {
			status: ready(at(time.Minute)),
			want:   with(ready(at(time.Minute)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberUnreachable, silent }), hint: true,
		},
		"a cluster that never came is unreachable": {
			want: api.FleetMemberStatus{Phase: api.FleetMemberUnreachable, Message: silent}, hint: true,
		},
		"another cluster of the name takes it": {
			status: ready(at(time.Second)), beat: but(heard(0), func(b *beat) { b.otherHeard = start.Add(-29 * time.Second) }),
			want: with(ready(at(0)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberNameTaken, taken }), hint: true,
		},
		"the name is free 30 seconds after the other cluster": {
			status: with(ready(at(time.Second)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberNameTaken, taken }),
			beat:   but(heard(0), func(b *beat) { b.otherHeard = start.Add(-30 * time.Second) }),
			want:   ready(at(0)), hint: true,
		},
		"another cluster takes the name of a silent one": {
			status: ready(at(time.Hour)), beat: but(heard(time.Hour), func(b *beat) { b.otherHeard = start }),
			want: with(ready(at(time.Hour)), func(s *api.FleetMemberStatus) { s.Phase, s.Message = api.FleetMemberNameTaken, taken }), hint: true,
		},
		"heartbeats for a FleetMember that was deleted do not count for the next one": {
			beat: but(heard(0), func(b *beat) { b.of, b.otherHeard = "the one before", start }), started: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := aHub(t)
			if c.started > 0 {
				h.started = start.Add(-c.started)
			}
			m := aMember(aKey(t))
			m.Status = c.status
			if c.beat != nil {
				h.beats.known["eu1"] = *c.beat
			}
			before := *m.Status.DeepCopy()
			got, hint := h.beats.statusOf(m)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the status (-want +got):\n%s", diff)
			}
			if hint != c.hint {
				t.Errorf("the FleetRollouts look at it: %t, want %t", hint, c.hint)
			}
			if diff := cmp.Diff(before, m.Status); diff != "" {
				t.Errorf("the FleetMember was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// What this process has not heard comes from the status that another one has written.
func TestWhatIsKnownOfAMember(t *testing.T) {
	t.Parallel()
	h := aHub(t)
	m := aMember(aKey(t))
	m.Status.Version, m.Status.Enforcement, m.Status.HubKeys = "v0.3.0", api.FleetEnforcementWebhook, []string{"K1"}
	last := h.beats.of(m)
	if !last.heard.IsZero() || last.uid != "uid-of-eu1" || last.version != "v0.3.0" || last.enforcement != api.FleetEnforcementWebhook || !cmp.Equal(last.hubKeys, []string{"K1"}) {
		t.Errorf("before a heartbeat it is %+v", last)
	}
	h.beats.known["eu1"] = beat{of: "m", otherHeard: start}
	if last := h.beats.of(m); last.enforcement != api.FleetEnforcementWebhook || !last.taken(start) {
		t.Errorf("after a heartbeat of another cluster it is %+v", last)
	}
	h.beats.known["eu1"] = beat{of: "m", heard: start, uid: "u", enforcement: api.FleetEnforcementNone}
	if last := h.beats.of(m); last.enforcement != api.FleetEnforcementNone || last.version != "" || last.uid != "u" || last.hubKeys != nil {
		t.Errorf("after a heartbeat it is %+v", last)
	}
}

// A silence counts from the last heartbeat that any executor of the hub may have heard.
func TestHowLongNobodyHasHeardAMember(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	written := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: ago(d)} }
	earlier := beat{heard: ago(10 * time.Second), silentFrom: ago(time.Hour), heardFrom: ago(50 * time.Minute)}
	for name, c := range map[string]struct {
		last     beat
		written  *metav1.Time
		from, to time.Time
	}{
		"the first heartbeat ever":                          {},
		"a heartbeat after the one before":                  {last: earlier, written: written(time.Minute), from: earlier.silentFrom, to: earlier.heardFrom},
		"29 seconds of silence":                             {last: beat{heard: ago(29 * time.Second)}, written: written(time.Minute)},
		"30 seconds of silence":                             {last: beat{heard: ago(30 * time.Second)}, written: written(time.Minute), from: ago(30 * time.Second), to: start},
		"another executor has heard it meanwhile":           {last: beat{heard: ago(time.Hour)}, written: written(89 * time.Second)},
		"a process that has just started, beside another":   {written: written(89 * time.Second)},
		"a process that has started after all were stopped": {written: written(90 * time.Second), from: ago(90 * time.Second), to: start},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if from, to := c.last.silenceBefore(start, c.written); !from.Equal(c.from) || !to.Equal(c.to) {
				t.Errorf("the last silence was from %s to %s, want %s to %s", from, to, c.from, c.to)
			}
		})
	}
}

// The executors of a cluster have clocks of their own, and a clock may be set back. Each process counts its heartbeats, and a replay is refused.
func TestWhichHeartbeatsOfSeveralProcessesCount(t *testing.T) {
	t.Parallel()
	member := aKey(t)
	expected := fleetmessage.Expected{Member: fleetmessage.Member{Name: "eu1", UID: "uid-of-eu1"}, Keys: []string{member.public}}
	last := beat{}
	for _, c := range []struct {
		process string
		number  int64
		ahead   time.Duration
		counts  bool
	}{
		{"p1", 1, 5 * time.Minute, true},
		{"p2", 1, 0, true},
		{"p1", 1, 5 * time.Minute, false},
		{"p1", 2, 0, true}, // its clock was set back
		{"p2", 1, 0, false},
		{"p3", 1, -time.Minute, true}, // a process that has started
	} {
		said := fleetmessage.Beat{Member: expected.Member, Time: start.Add(c.ahead), Process: c.process, Number: c.number, Enforcement: api.FleetEnforcementPolicy}
		message, err := said.Seal(member.pair)
		if err != nil {
			t.Fatal(err)
		}
		_, err = expected.OpenBeat(message, last.numbers(), start)
		if (err == nil) != c.counts {
			t.Errorf("heartbeat %d of %s, whose clock is %s ahead: %v", c.number, c.process, c.ahead, err)
		}
		if err == nil {
			last = beat{heard: start, senders: last.sendersAfter(said, start)}
		}
	}
	if skew := last.clockSkew(); skew != -time.Minute {
		t.Errorf("the clock of the cluster is %s ahead, want that of p3", skew)
	}
	later := start.Add(rememberSender)
	if left := last.sendersAfter(fleetmessage.Beat{Process: "p4"}, later); len(left) != 1 {
		t.Errorf("the hub remembers processes that send nothing: %v", left)
	}
}

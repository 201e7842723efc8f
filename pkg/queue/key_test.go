package queue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

func TestSubjects(t *testing.T) {
	k := queue.Key{Cluster: "eu-1.example", Namespace: "shop", Name: "checkout.v2"}
	got := []string{k.String(), k.WorkSubject(), k.TimerSubject(), k.EventSubject(), k.DeadLetterSubject()}
	want := []string{
		"eu-1.example/shop/checkout.v2",
		"sluice.work.eu-1_example.shop.checkout_v2",
		"sluice.timer.eu-1_example.shop.checkout_v2",
		"sluice.event.eu-1_example.shop.checkout_v2",
		"sluice.dlq.eu-1_example.shop.checkout_v2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	k.Task = queue.TaskAnalysis
	got = []string{k.String(), k.WorkSubject(), k.TimerSubject(), k.EventSubject(), k.DeadLetterSubject()}
	want = []string{
		"eu-1.example/shop/checkout.v2/analysis",
		"sluice.measure.eu-1_example.shop.checkout_v2",
		"sluice.tick.eu-1_example.shop.checkout_v2",
		"sluice.event.eu-1_example.shop.checkout_v2",
		"sluice.dlq.eu-1_example.shop.checkout_v2.analysis",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of an analysis (-want +got):\n%s", diff)
	}
	k.Task = queue.TaskRouting
	got = []string{k.String(), k.WorkSubject(), k.TimerSubject(), k.DeadLetterSubject()}
	want = []string{
		"eu-1.example/shop/checkout.v2/routing",
		"sluice.work.eu-1_example.shop.checkout_v2.routing",
		"sluice.timer.eu-1_example.shop.checkout_v2.routing",
		"sluice.dlq.eu-1_example.shop.checkout_v2.routing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of a routing (-want +got):\n%s", diff)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for name, k := range map[string]queue.Key{
		"no cluster":              {Namespace: "n", Name: "x"},
		"no namespace":            {Cluster: "c", Name: "x"},
		"no name":                 {Cluster: "c", Namespace: "n"},
		"a wildcard":              {Cluster: "*", Namespace: "n", Name: "x"},
		"a rest wildcard":         {Cluster: "c", Namespace: "n", Name: ">"},
		"an underscore":           {Cluster: "c", Namespace: "n", Name: "a_b"},
		"a space":                 {Cluster: "c", Namespace: "n", Name: "a b"},
		"upper case":              {Cluster: "c", Namespace: "n", Name: "A"},
		"a name of 254 letters":   {Cluster: "c", Namespace: "n", Name: strings.Repeat("a", 254)},
		"a slash inside the name": {Cluster: "c", Namespace: "n", Name: "a/b"},
		"an unknown task":         {Cluster: "c", Namespace: "n", Name: "x", Task: "paint"},
	} {
		if k.Validate() == nil {
			t.Errorf("%s: %q was accepted", name, k)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	f.Add("sluice.work.eu-1_example.shop.checkout_v2")
	f.Add("sluice.timer.c.n.x")
	f.Add("sluice.event.default.shop.checkout")
	f.Add("sluice.approval.default.shop.checkout.ci")
	f.Add("sluice.event.*.shop.>")
	f.Add("sluice.work..n.")
	f.Add("sluice.work.c.n.x.y")
	f.Add("sluice.measure.c.n.x")
	f.Add("sluice.tick.c.n.x")
	f.Add("sluice.dlq.c.n.x")
	f.Add("sluice.dlq.c.n.x.analysis")
	f.Add("sluice.dlq.c.n.x.")
	f.Add("sluice.work.c.n.x.routing")
	f.Add("sluice.timer.c.n.x.routing")
	f.Add("sluice.tick.c.n.x.routing")
	f.Fuzz(func(t *testing.T, subject string) {
		k, err := queue.ParseSubject(subject)
		if err != nil {
			return
		}
		if s := k.WorkSubject(); s != subject && k.TimerSubject() != subject && k.EventSubject() != subject && k.DeadLetterSubject() != subject {
			t.Errorf("%q became %q", subject, s)
		}
		if err := k.Validate(); err != nil {
			t.Errorf("%q became %q: %v", subject, k, err)
		}
	})
}

func FuzzKeysAndSubjectsAreOneToOne(f *testing.F) {
	f.Add("eu-1", "shop", "checkout.v2", "", "eu-1", "shop", "checkout-v2", "")
	f.Add("c", "n", "x", "", "c", "n", "x", "analysis")
	f.Add("c", "n", "x", "", "c", "n", "x", "routing")
	f.Fuzz(func(t *testing.T, c1, n1, x1, t1, c2, n2, x2, t2 string) {
		a, b := queue.Key{Cluster: c1, Namespace: n1, Name: x1, Task: t1}, queue.Key{Cluster: c2, Namespace: n2, Name: x2, Task: t2}
		if a.Validate() != nil || b.Validate() != nil {
			return
		}
		for _, of := range []func(queue.Key) string{queue.Key.WorkSubject, queue.Key.TimerSubject, queue.Key.DeadLetterSubject, queue.Key.String} {
			if (a == b) != (of(a) == of(b)) {
				t.Errorf("%q and %q share %q", a, b, of(a))
			}
		}
		for _, subject := range []string{a.WorkSubject(), a.TimerSubject(), a.DeadLetterSubject()} {
			if back, err := queue.ParseSubject(subject); err != nil || back != a {
				t.Errorf("%q became %q: %v", a, back, err)
			}
		}
	})
}

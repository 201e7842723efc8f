package queue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/pkg/queue"
)

func TestSubjects(t *testing.T) {
	k := queue.Key{Cluster: "eu-1.example", Namespace: "shop", Name: "checkout.v2"}
	got := []string{k.String(), k.WorkSubject(), k.TimerSubject(), k.EventSubject(), k.DeadSubject()}
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
	} {
		if k.Validate() == nil {
			t.Errorf("%s: %q was accepted", name, k)
		}
		if _, err := queue.ParseKey(k.String()); err == nil {
			t.Errorf("%s: %q was parsed", name, k)
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
	f.Fuzz(func(t *testing.T, subject string) {
		k, err := queue.ParseSubject(subject)
		if err != nil {
			return
		}
		if s := k.WorkSubject(); s != subject && k.TimerSubject() != subject && k.EventSubject() != subject && k.DeadSubject() != subject {
			t.Errorf("%q became %q", subject, s)
		}
		if back, err := queue.ParseKey(k.String()); err != nil || back != k {
			t.Errorf("%q became %q: %v", k, back, err)
		}
	})
}

func FuzzKeysAndSubjectsAreOneToOne(f *testing.F) {
	f.Add("eu-1", "shop", "checkout.v2", "eu-1", "shop", "checkout-v2")
	f.Fuzz(func(t *testing.T, c1, n1, x1, c2, n2, x2 string) {
		a, b := queue.Key{Cluster: c1, Namespace: n1, Name: x1}, queue.Key{Cluster: c2, Namespace: n2, Name: x2}
		if a.Validate() != nil || b.Validate() != nil {
			return
		}
		if (a == b) != (a.WorkSubject() == b.WorkSubject()) {
			t.Errorf("%q and %q share %q", a, b, a.WorkSubject())
		}
		if back, err := queue.ParseSubject(a.WorkSubject()); err != nil || back != a {
			t.Errorf("%q became %q: %v", a, back, err)
		}
	})
}

package kube

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAReleaseIsLookedAtLiveOnceInAWhile(t *testing.T) {
	t.Parallel()
	name, began := types.NamespacedName{Namespace: "shop", Name: "checkout"}, time.Now()
	var d liveReads
	for _, look := range []struct {
		after     time.Duration
		releasing bool
		live      bool
		when      string
	}{
		{0, false, false, "at rest"},
		{time.Hour, false, false, "at rest for long"},
		{time.Hour, true, false, "when the release begins"},
		{time.Hour + liveReadInterval/2, true, false, "soon after"},
		{time.Hour + liveReadInterval, true, true, "when the watches were trusted for long"},
		{time.Hour + liveReadInterval + time.Second, true, false, "right after that"},
		{2 * time.Hour, false, false, "when it is over"},
		{3 * time.Hour, true, false, "when the next one begins"},
	} {
		if got := d.isDue(name, look.releasing, began.Add(look.after)); got != look.live {
			t.Errorf("%s it is looked at live: %t, want %t", look.when, got, look.live)
		}
	}
}

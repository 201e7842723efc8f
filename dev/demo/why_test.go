package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrepPrintsLinesThatHoldAWordAndThoseThatFollow(t *testing.T) {
	t.Parallel()
	const text = "a\nb x\nc\nd\ne x\nf x\ng"
	for name, c := range map[string]struct {
		after int
		want  string
	}{
		"only the lines themselves":     {0, "b x\ne x\nf x\n"},
		"with one that follows":         {1, "b x\nc\ne x\nf x\ng"},
		"with more than there are left": {9, "b x\nc\nd\ne x\nf x\ng"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, grep(text, "x", c.after)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

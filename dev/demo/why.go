package main

import (
	"context"
	"strings"
)

// why asks, as a user would, what stopped the release.
func (p *shop) why(ctx context.Context) error {
	out, err := p.cluster.Kubectl(ctx, "describe", "rollout", "shop")
	if err != nil {
		return err
	}
	p.say("$ kubectl describe rollout shop | grep -A 4 Conditions:")
	p.print(grep(out, "Conditions:", 4))
	p.say("$ kubectl describe rollout shop | grep Warning")
	p.print(grep(out, "Warning", 0))
	return p.command(ctx, "analysis", "get", "shop")
}

// grep are the lines that hold a word, with some that follow each, as the program of that name prints them.
func grep(text, word string, after int) string {
	var found strings.Builder
	left := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			left = after + 1
		}
		if left > 0 {
			found.WriteString(line)
			left--
		}
	}
	return found.String()
}

package main

import (
	"context"
	"strings"
)

// why shows with the commands of a user why the release stopped.
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

// grep returns the lines that contain a word, with some lines after each, as the program grep prints them.
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

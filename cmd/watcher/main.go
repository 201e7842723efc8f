// Command watcher: turn changes in a cluster into work for executors.
package main

import (
	"sluice.dev/sluice/cmd/internal/doorflags"
	"sluice.dev/sluice/cmd/internal/part"
	"sluice.dev/sluice/cmd/internal/webhookflags"
)

func main() {
	var door doorflags.Flags
	var hook webhookflags.Flags
	command := part.Command("watcher", "Turn changes in a cluster into work for executors", hook.Watcher(door.Watcher))
	door.Add(command.Flags())
	hook.Add(command.Flags())
	part.Main(command)
}

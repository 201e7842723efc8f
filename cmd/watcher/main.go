// Command watcher: turn changes in a cluster into work for executors.
package main

import (
	"sluice.dev/sluice/cmd/internal/doorflags"
	"sluice.dev/sluice/cmd/internal/part"
)

func main() {
	var door doorflags.Flags
	command := part.Command("watcher", "Turn changes in a cluster into work for executors", door.Watcher)
	door.Add(command.Flags())
	part.Main(command)
}

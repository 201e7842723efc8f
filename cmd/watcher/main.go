// Command watcher: turn changes in a cluster into work for executors.
package main

import "sluice.dev/sluice/cmd/internal/part"

func main() {
	part.Main(part.Command("watcher", "Turn changes in a cluster into work for executors", part.Watcher))
}

// Command watcher: turn changes in a cluster into work for executors.
package main

import "sluice.dev/sluice/cmd/internal/component"

func main() {
	var door component.ReceiverFlags
	var hook component.WebhookFlags
	command := component.Command("watcher", "Turn changes in a cluster into work for executors", hook.Watcher(door.Watcher))
	door.Add(command.Flags())
	hook.Add(command.Flags())
	component.Main(command)
}

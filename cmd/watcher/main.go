// Command watcher turns changes in a cluster into work for executors.
package main

import "sluice.dev/sluice/cmd/internal/component"

func main() {
	var receiver component.ReceiverFlags
	var hook component.WebhookFlags
	command := component.NewCommand("watcher", "Turn changes in a cluster into work for executors", hook.WrapWatcher(receiver.NewWatcher))
	receiver.AddFlags(command.Flags())
	hook.AddFlags(command.Flags())
	component.Main(command)
}

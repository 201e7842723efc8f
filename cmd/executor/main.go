// Command executor carries out releases, one step at a time.
package main

import "sluice.dev/sluice/cmd/internal/component"

func main() {
	var fleet component.FleetFlags
	command := component.NewCommand("executor", "Carry out releases, one step at a time", fleet.NewExecutor)
	fleet.AddFlags(command.Flags())
	component.Main(command)
}

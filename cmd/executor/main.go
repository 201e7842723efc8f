// Command executor carries out releases, one step at a time.
package main

import "sluice.dev/sluice/cmd/internal/component"

func main() {
	component.Main(component.NewCommand("executor", "Carry out releases, one step at a time", component.NewExecutor))
}

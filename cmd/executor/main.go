// Command executor: carry out releases, one step at a time.
package main

import "sluice.dev/sluice/cmd/internal/part"

func main() {
	part.Main(part.Command("executor", "Carry out releases, one step at a time", part.Executor))
}

// Command analyzer: measure metrics for releases.
package main

import "sluice.dev/sluice/cmd/internal/part"

func main() {
	part.Main(part.Command("analyzer", "Measure metrics for releases", part.Analyzer))
}

// Command analyzer measures metrics for releases.
package main

import "sluice.dev/sluice/cmd/internal/component"

func main() {
	component.Main(component.NewCommand("analyzer", "Measure metrics for releases", component.NewAnalyzer))
}

package fleet

import (
	"testing"

	"sluice.dev/sluice/pkg/api"
)

// BenchmarkPlanOf3500Clusters measures one decision in the middle of a wave over all clusters.
func BenchmarkPlanOf3500Clusters(b *testing.B) {
	const clusters = 3500
	g := aFleet(b, clusters, api.FleetWave{MaxConcurrency: number(clusters)}).plan()
	for i := range clusters {
		g.answer(api.FleetReportProgressing, "", memberName(i))
	}
	g.plan()
	b.ReportAllocs()
	for b.Loop() {
		Plan(g.Seen, g.now)
	}
}

package fleethub

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/sluice/pkg/api"
)

// metrics are the metrics of a hub. Those about the fleet as a whole are the same in every process of the hub.
type metrics struct {
	conflicts, orders prometheus.Counter
	grants, refusals  *prometheus.CounterVec
	requests          *prometheus.CounterVec
	waves             prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, h *Hub) *metrics {
	m := &metrics{
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_fleet_conflicts_total", Help: "Runs of FleetRollouts that another executor has overtaken."}),
		orders:    prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_fleet_orders_total", Help: "Orders published to clusters."}),
		grants: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_fleet_grants_total", Help: "Grants by verb: Release, Hold, Abort or Withdraw.",
		}, []string{"verb"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_fleet_messages_refused_total", Help: "Messages that the hub has refused, by kind and reason.",
		}, []string{"kind", "reason"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_fleet_requests_total", Help: "Events of programs about FleetRollouts by refusal, empty for accepted ones.",
		}, []string{"refusal"}),
		waves: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_fleet_wave_duration_seconds", Help: "Time from the beginning of a wave until it has passed.", Buckets: prometheus.ExponentialBuckets(15, 2, 16),
		}),
	}
	if r != nil {
		r.MustRegister(m.conflicts, m.orders, m.grants, m.refusals, m.requests, m.waves, fleetCollector{h})
	}
	return m
}

// countDecision counts what a committed status has decided.
func (m *metrics) countDecision(before, after api.FleetRolloutStatus) {
	if after.Grant != nil && (before.Grant == nil || before.Grant.Number().Before(after.Grant.Number())) {
		m.grants.WithLabelValues(string(after.Grant.Verb)).Inc()
	}
	for i, w := range after.Waves {
		if w.Stage == api.FleetWavePassed && i < len(before.Waves) && before.Waves[i].Stage != api.FleetWavePassed {
			m.waves.Observe(w.Since.Sub(w.Began.Time).Seconds())
		}
	}
}

// fleetCollector describes the members and the FleetRollouts as the hub sees them when it is asked.
type fleetCollector struct{ hub *Hub }

var (
	membersDesc = prometheus.NewDesc("sluice_fleet_members", "Clusters of the fleet by phase.", []string{"phase"}, nil)
	noneDesc    = prometheus.NewDesc("sluice_fleet_members_without_enforcement", "Clusters of the fleet in which nothing holds changes.", nil, nil)
	ageDesc     = prometheus.NewDesc("sluice_fleet_report_age_seconds", "Time since this process has heard the cluster.", []string{"member"}, nil)
	targetsDesc = prometheus.NewDesc("sluice_fleet_targets", "Clusters of the release of a FleetRollout by phase.", []string{"namespace", "name", "phase"}, nil)
	phaseDesc   = prometheus.NewDesc("sluice_fleet_rollout_phase", "1 for the phase and the reason of each FleetRollout.", []string{"namespace", "name", "phase", "reason"}, nil)
)

// Describe is part of [prometheus.Collector].
func (c fleetCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, noneDesc, ageDesc, targetsDesc, phaseDesc} {
		to <- d
	}
}

// Collect is part of [prometheus.Collector].
func (c fleetCollector) Collect(to chan<- prometheus.Metric) {
	c.collectFrom(c.hub.kube.FleetMembers(), c.hub.kube.FleetRollouts(), to)
}

func (c fleetCollector) collectFrom(members []*api.FleetMember, rollouts []*api.FleetRollout, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := c.hub.Clock()
	phases := map[api.FleetMemberPhase]int{api.FleetMemberReady: 0, api.FleetMemberUnreachable: 0, api.FleetMemberNameTaken: 0}
	unenforced := 0
	for _, m := range members {
		if m.Status.Phase != "" {
			phases[m.Status.Phase]++
		}
		last := c.hub.beats.of(m)
		if last.enforcement == api.FleetEnforcementNone {
			unenforced++
		}
		if !last.heard.IsZero() {
			gauge(ageDesc, max(0, now.Sub(last.heard).Seconds()), m.Name)
		}
	}
	for phase, n := range phases {
		gauge(membersDesc, float64(n), string(phase))
	}
	gauge(noneDesc, float64(unenforced))
	for _, r := range rollouts {
		for phase, n := range r.Status.Counts {
			gauge(targetsDesc, float64(n), r.Namespace, r.Name, string(phase))
		}
		if r.Status.Phase != "" {
			gauge(phaseDesc, 1, r.Namespace, r.Name, string(r.Status.Phase), r.Status.Reason)
		}
	}
}

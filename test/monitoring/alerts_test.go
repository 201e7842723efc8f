package monitoring

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// An alert is correct if it fires for the bad series and does not fire for the good ones. A semicolon separates alternatives. Series are in the form of
// Prometheus's own tests, with one value a minute; the expression is evaluated after half an hour.
func TestAlertsFireForWhatTheyAreAboutOnly(t *testing.T) {
	cases := map[string]struct{ bad, good string }{
		"SluiceWatcherMissing":   {`other 0x60`, `sluice_watcher_hints_total 0x60`},
		"SluiceExecutorMissing":  {`sluice_queue_buffered_hints{task="analysis"} 0x60`, `sluice_queue_buffered_hints{task="release"} 0x60`},
		"SluiceQueueGrowing":     {`sluice_queue_pending_hints{task="release"} 500x60`, `sluice_queue_pending_hints{task="release"} 500x25 0x30`},
		"SluiceQueueLatencyHigh": {buckets("0x60", "0+60x60"), buckets("0+60x60", "0+60x60")},
		"SluiceRunsFail":         {outcomes("0+60x60", "0+60x60"), outcomes("0+60x60", "0+1x60")},
		"SluiceRunPanicked":      {`sluice_queue_panics_total 0x25 1x30`, `sluice_queue_panics_total 3x60`},
		"SluiceDeadLetters":      {`sluice_queue_dead_letter_keys 2x60`, `sluice_queue_dead_letter_keys 0x60`},
		"SluiceLeasesAreLost":    {`sluice_queue_lost_leases_total 0+1x60`, `sluice_queue_lost_leases_total 7x60`},
		"SluiceAPIServerThrottling": {
			`sluice_queue_throttled_seconds_total 0+30x60`, `sluice_queue_throttled_seconds_total 0+1x60`},
		"SluiceRolloutStalled": {`sluice_rollout_stalled{namespace="shop",rollout="web",reason="RouteUnsupported"} 1x60`,
			`sluice_rollout_stalled{namespace="shop",rollout="web",reason="RouteUnsupported"} 1x10 stale`},
		"SluiceFleetStalled": {`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Stalled",reason="NothingProven"} 1x60;` +
			`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Paused",reason="BudgetExceeded"} 1x60`,
			`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Waiting",reason="Approval"} 1x60;` +
				`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Paused",reason="Paused"} 1x60`},
		"SluiceFleetWithdrawn": {`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Withdrawing",reason="RolledBack"} 1x60`,
			`sluice_fleet_rollout_phase{namespace="shop",name="web",phase="Succeeded",reason="Completed"} 1x60`},
		"SluiceFleetMemberUnreachable": {`sluice_fleet_members{phase="Unreachable"} 1x60`, `sluice_fleet_members{phase="Ready"} 5x60`},
		"SluiceFleetMemberUnenforced":  {`sluice_fleet_members_without_enforcement 1x60`, `sluice_fleet_members_without_enforcement 0x60`},
		"SluiceFleetMessagesRefused": {`sluice_fleet_orders_refused_total{reason="UnknownKey"} 0x20 1x40`,
			`sluice_fleet_orders_refused_total{reason="UnknownKey"} 3x60`},
		"SluiceApprovalsAreRefused": {`sluice_approvals_total{result="NotPaused"} 0+1x60`, `sluice_approvals_total{result="Accepted"} 0+9x60`},
	}
	engine := promqltest.NewTestEngine(t, false, 0, 100_000)
	for _, rule := range rules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			c, ok := cases[rule.Alert]
			if !ok {
				t.Fatal("nobody says when it is to fire")
			}
			expected := map[string]bool{}
			for series := range strings.SplitSeq(c.bad, ";") {
				expected[series] = true
			}
			for series := range strings.SplitSeq(c.good, ";") {
				expected[series] = false
			}
			for series, want := range expected {
				storage := promqltest.LoadedStorage(t, "load 1m\n  "+series)
				query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(0, 0).Add(30*time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				result := query.Exec(t.Context())
				vector, err := result.Vector()
				if err != nil {
					t.Fatal(err)
				}
				if fires := len(vector) > 0; fires != want {
					t.Errorf("%s: it fires: %v, want %v", series, fires, want)
				}
				query.Close()
			}
		})
	}
}

func buckets(fast, all string) string {
	return `sluice_queue_duration_seconds_bucket{le="0.1"} ` + fast + "\n  " +
		`sluice_queue_duration_seconds_bucket{le="16"} ` + all + "\n  " + `sluice_queue_duration_seconds_bucket{le="+Inf"} ` + all
}

func outcomes(ok, failed string) string {
	return `sluice_queue_work_duration_seconds_count{outcome="ok"} ` + ok + "\n  " + `sluice_queue_work_duration_seconds_count{outcome="error"} ` + failed
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"sluice.dev/sluice/dev/demo/router"
)

const shopFiles = "dev/demo/shop/"

// shares returns the traffic shares of the canary in the steps of the shop's Rollout.
func shares() []float64 { return []float64{0.20, 0.50, 0.80} }

// metricsDecide is the second act: users send real requests, and metrics from Prometheus promote and stop releases.
func (s *show) metricsDecide(ctx context.Context) (err error) {
	var p *shop
	defer func() {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, scene := range []struct {
		name string
		play func() error
	}{
		{"Act two: metrics decide. Start two servers, a router and Prometheus", func() (err error) {
			p, err = openShop(ctx, s, versions(), rate)
			if err == nil {
				p.introduce()
			}
			return err
		}},
		{"Deploy the shop, and let users in", func() error { return p.deploy(ctx) }},
		{"A good version, v2: metrics promote it without an approval", func() error { return p.promoted(ctx, "v2") }},
		{"A bad version, v3: one request in twenty fails, and metrics stop it", func() error { return p.stopped(ctx, "v3") }},
		{"Find out why it stopped", func() error { return p.why(ctx) }},
		{"The mistake is fixed, v4: it passes", func() error { return p.promoted(ctx, "v4") }},
		{"Requests by version", func() error { return p.sum() }},
	} {
		if err := s.stage(scene.name, scene.play); err != nil {
			return err
		}
	}
	return nil
}

func (p *shop) introduce() {
	p.say("  From here on real requests flow. One HTTP server answers for the simulated pods of Service shop, another for those of shop-canary.")
	p.say("  The router stands in for Istio's proxy: it watches VirtualService shop, and divides the requests as that says.")
	p.say("  Prometheus is real, and scrapes both servers every second: %s", p.prometheus.Address)
}

func (p *shop) deploy(ctx context.Context) error {
	for _, file := range []string{"workload.yaml", "virtualservice.yaml", "templates.yaml"} {
		if err := p.kubectl(ctx, "apply", "-f", shopFiles+file); err != nil {
			return err
		}
	}
	if err := p.applyRollout(ctx); err != nil {
		return err
	}
	if err := p.await(ctx, stableService, healthy); err != nil {
		return err
	}
	if err := p.kubectl(ctx, "wait", "--for=condition=Available", "deployment/shop"); err != nil {
		return err
	}
	if err := p.armed(ctx, "shop"); err != nil {
		return err
	}
	if _, _, err := p.router.Await(ctx, func(t router.Table) bool { return t.Share(stableService) == 1 }); err != nil {
		return err
	}
	p.open(ctx)
	p.say("  %d users send %d requests a second, to the end of the demo.", users, p.rate)
	return p.prometheus.Scraped(ctx, p.stable.Address())
}

// applyRollout sets the address of Prometheus, which differs in each run.
func (p *shop) applyRollout(ctx context.Context) error {
	text, err := os.ReadFile(shopFiles + "rollout.yaml")
	if err != nil {
		return fmt.Errorf("read the Rollout: %w", err)
	}
	p.say("$ sed 's|PROMETHEUS|%s|' %srollout.yaml | kubectl apply -f -", p.prometheus.Address, shopFiles)
	out, err := p.cluster.KubectlStdin(ctx, strings.ReplaceAll(string(text), "PROMETHEUS", p.prometheus.Address), "apply", "-f", "-")
	p.print(out)
	return err
}

// sum stops the users and prints the results of all requests.
func (p *shop) sum() error {
	r := p.closeDoors()
	p.say("  Counted at the servers:")
	for _, version := range []string{"v1", "v2", "v3", "v4"} {
		p.say("    %s", p.account(version))
	}
	nobody := p.ledger.Of("").Requests
	p.say("  %d requests were sent. %d got no answer, and %d found no pod.", r.Sent, r.Lost, nobody)
	if strange := r.Sent - r.Lost - r.Answered[200] - r.Answered[500]; r.Lost > 0 || strange > 0 {
		return fmt.Errorf("requests were lost on the way: %+v", r)
	}
	return nil
}

// account describes the answers of a version.
func (p *shop) account(version string) string {
	c := p.ledger.Of(version)
	return fmt.Sprintf("%s answered %d requests, %d with an error. Users hit: %d.", version, c.Requests, c.Errors, c.UsersHit)
}

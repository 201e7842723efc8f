package main

import (
	"math"
	"strconv"
	"time"

	"sluice.dev/sluice/pkg/analysis"
)

const (
	step   = 5 * time.Second
	scrape = 15 * time.Second
)

// bounds returns the default buckets of Prometheus' client libraries, in seconds.
func bounds() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, math.Inf(1)}
}

// pod counts requests, and is scraped. Its counters are all requests, bad requests, and one bucket for each bound.
type pod struct {
	name     string
	offset   time.Duration
	counters []float64
	samples  [][]analysis.Point
	gone     bool
}

func newPod(name string, offset time.Duration) *pod {
	n := 2 + len(bounds())
	return &pod{name: name, offset: offset, counters: make([]float64, n), samples: make([][]analysis.Point, n)}
}

// cluster holds the pods of one version, over time.
type cluster struct {
	group  group
	share  float64
	bounds []float64
	pods   []*pod
	made   int
}

func newCluster(g group, share float64) *cluster {
	c := &cluster{group: g, share: share, bounds: bounds()}
	for range g.pods {
		c.add()
	}
	return c
}

func (c *cluster) add() {
	c.pods = append(c.pods, newPod("pod-"+strconv.Itoa(c.made), time.Duration(c.made%3)*step))
	c.made++
}

// advance simulates a step up to a time: requests, accidents, scrapes.
func (c *cluster) advance(r chance, begin time.Time, at time.Duration, latency bool) {
	live := c.live()
	for _, p := range live {
		c.serve(r, p, at, float64(len(live)), latency)
	}
	for _, t := range c.group.resets {
		if t == at {
			clear(live[r.IntN(len(live))].counters)
		}
	}
	for _, t := range c.group.restarts {
		if t == at {
			live[r.IntN(len(live))].gone = true
			c.add()
			live = c.live()
		}
	}
	blind := at >= c.group.blind[0] && at < c.group.blind[1]
	for _, p := range live {
		if (at+p.offset)%scrape != 0 || blind || r.Float64() < c.group.missed {
			continue
		}
		for i, v := range p.counters {
			p.samples[i] = append(p.samples[i], analysis.Point{At: begin.Add(at), Value: v})
		}
	}
}

func (c *cluster) live() []*pod {
	var list []*pod
	for _, p := range c.pods {
		if !p.gone {
			list = append(list, p)
		}
	}
	return list
}

// Latencies are lognormal: a median of 60 ms, a p99 of 240 ms.
const median, deviation = 0.06, 0.6

// serve counts the requests of a step.
func (c *cluster) serve(r chance, p *pod, at time.Duration, pods float64, latency bool) {
	requests := r.poisson(c.group.rate / pods * step.Seconds())
	p.counters[0] += requests
	p.counters[1] += min(requests, r.poisson(requests*min(1, c.share*c.group.worse(at))))
	if !latency {
		return
	}
	counts := p.counters[2:]
	for range int(requests) {
		latency := median * c.group.slower(at) * math.Exp(deviation*r.NormFloat64())
		for i := len(counts) - 1; i >= 0 && latency <= c.bounds[i]; i-- {
			counts[i]++ // buckets are cumulative
		}
	}
}

// counter answers a query for counters over the last six minutes, as requests_total[6m] does.
func (c *cluster) counter(at time.Time, index int) analysis.Result {
	result := analysis.Result{Kind: analysis.KindMatrix}
	for _, p := range c.pods {
		if points := window(p.samples[index], at); len(points) > 0 {
			result.Series = append(result.Series, analysis.Series{Labels: map[string]string{"pod": p.name}, Points: points})
		}
	}
	return result
}

// buckets answers a query for all buckets.
func (c *cluster) buckets(at time.Time) analysis.Result {
	result := analysis.Result{Kind: analysis.KindMatrix}
	for i, bound := range bounds() {
		for _, s := range c.counter(at, 2+i).Series {
			s.Labels["le"] = strconv.FormatFloat(bound, 'g', -1, 64)
			result.Series = append(result.Series, s)
		}
	}
	return result
}

func window(points []analysis.Point, at time.Time) []analysis.Point {
	from := 0
	for from < len(points) && !points[from].At.After(at.Add(-6*time.Minute)) {
		from++
	}
	to := from
	for to < len(points) && !points[to].At.After(at) {
		to++
	}
	return points[from:to]
}

package queue

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of a consumer.
type Metrics struct {
	hints, redeliveries, retries, panics prometheus.Counter
	conflicts, lostLeases, shedHints     prometheus.Counter
	throttled, throttledSeconds          prometheus.Counter
	bufferedHints, depth, deadLetterKeys prometheus.Gauge
	deadLetters                          *prometheus.CounterVec
	runs                                 *prometheus.HistogramVec
	waits                                prometheus.Histogram

	mu sync.Mutex
	// consumer is the consumer in NATS, once it exists.
	consumer jetstream.Consumer
}

// scrapePatience bounds how long a scrape waits for NATS.
const scrapePatience = time.Second

// NewMetrics registers the metrics of the consumers of a task, with the label task: release or analysis. With a nil
// registerer they are not exported. It panics if they are registered already.
func NewMetrics(r prometheus.Registerer, task string) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_queue_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_queue_" + name, Help: help})
	}
	seconds := prometheus.ExponentialBuckets(0.001, 2, 15)
	m := &Metrics{
		hints:            counter("hints_total", "Hints delivered to this process."),
		redeliveries:     counter("redeliveries_total", "Hints among those that had been delivered before, to anybody."),
		retries:          counter("retries_total", "Runs that ended in an error and are retried."),
		panics:           counter("panics_total", "Runs that panicked."),
		conflicts:        counter("lease_conflicts_total", "Runs put off because another process held the lease."),
		lostLeases:       counter("lost_leases_total", "Runs during which the lease went to another process."),
		shedHints:        counter("shed_hints_total", "Hints that waited in this process and that it gave to processes with free workers."),
		throttled:        counter("throttled_total", "Answers of the API server that asked this process to wait."),
		throttledSeconds: counter("throttled_seconds_total", "Time in which this process began no run because the API server had asked it to wait."),
		bufferedHints:    gauge("buffered_hints", "Hints that this process holds, running or waiting."),
		depth:            gauge("depth", "Rollouts that wait in this process for a worker."),
		deadLetterKeys:   gauge("dead_letter_keys", "Rollouts of the cluster whose task has a dead letter; the same in every process that does the task."),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_queue_dead_letters_total", Help: "Dead letters written, by reason: Failing or Abandoned.",
		}, []string{"reason"}),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_queue_work_duration_seconds", Help: "Duration of runs by outcome, ok or error.", Buckets: seconds,
		}, []string{"outcome"}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_queue_duration_seconds", Help: "Time from the delivery of a hint to the start of its run.", Buckets: seconds,
		}),
	}
	for _, reason := range []Reason{Failing, Abandoned} {
		m.deadLetters.WithLabelValues(string(reason)) // it exists from the start, so that a rate has a beginning
	}
	if r != nil {
		r = prometheus.WrapRegistererWith(prometheus.Labels{"task": cmp.Or(task, "release")}, r)
		pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_queue_pending_hints",
			Help: "Hints in NATS that no process of the cluster holds; the same in every process that does the task.",
		}, m.pendingHints)
		r.MustRegister(m.hints, m.redeliveries, m.retries, m.panics, m.conflicts, m.lostLeases, m.shedHints, m.throttled, m.throttledSeconds,
			m.bufferedHints, m.depth, m.deadLetterKeys, m.deadLetters, m.runs, m.waits, pending)
	}
	return m
}

func (m *Metrics) observeRun(err error, d time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.runs.WithLabelValues(outcome).Observe(d.Seconds())
}

func (m *Metrics) setConsumer(work jetstream.Consumer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consumer = work
}

// pendingHints asks NATS at each scrape. It is NaN while NATS does not answer, because zero would mean an empty queue.
func (m *Metrics) pendingHints() float64 {
	m.mu.Lock()
	work := m.consumer
	m.mu.Unlock()
	if work == nil {
		return math.NaN()
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	info, err := work.Info(ctx)
	if err != nil {
		return math.NaN()
	}
	return float64(info.NumPending)
}

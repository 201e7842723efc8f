package main

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// chance draws random numbers. Each run has its own source, so that the order of runs does not matter.
type chance struct{ *rand.Rand }

func newChance(seed, run uint64) chance { return chance{rand.New(rand.NewPCG(seed, run))} }

// poisson draws a number of events; beyond 50 expected it rounds a normal variable.
func (c chance) poisson(mean float64) float64 {
	if mean <= 0 {
		return 0
	}
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*c.NormFloat64()))
	}
	limit, events, product := math.Exp(-mean), 0.0, c.Float64()
	for product > limit {
		product *= c.Float64()
		events++
	}
	return events
}

// gamma draws a multiplier of mean 1 (Marsaglia and Tsang, 2000).
func (c chance) gamma(shape float64) float64 {
	if shape < 1 {
		return c.gamma(shape+1) * (shape + 1) / shape * math.Pow(c.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	for {
		x := c.NormFloat64()
		v := math.Pow(1+x/math.Sqrt(9*d), 3)
		if v > 0 && math.Log(c.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v / shape
		}
	}
}

// between draws evenly on a logarithmic scale.
func (c chance) between(low, high float64) float64 {
	return low * math.Exp(c.Float64()*math.Log(high/low))
}

// each calls play for every number below n, on all processors.
func each(n int, play func(i int)) {
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				play(i)
			}
		})
	}
	group.Wait()
}

package analysis

import (
	"math"
	"time"
)

// Past tells how unevenly the bad requests of the stable group came before the release, in blocks of 1, 2, 4 and more ticks. A burst that lasts longer
// than a block varies the rates of blocks as much as the rates of ticks. Over longer blocks it averages out.
type Past struct {
	// Shapes weighs the shapes of the gamma variables, block length by block length. The last blocks are at least twice as long as the longest burst.
	Shapes []shapeWeights `json:"shapes"`
	// Burst is the index of the blocks that share next to none of their unevenness with their neighbours.
	Burst int `json:"burst"`
	// Endless says that bursts last about as long as the longest blocks, so that not even those are independent.
	Endless bool `json:"endless,omitempty"`
	// Requests is the mean number of requests in a tick, and Share the share of bad ones.
	Requests float64 `json:"requests"`
	Share    float64 `json:"share"`
	// Known is the time with requests that was seen, and Needed the time without which nothing tells how long bursts last.
	Known  time.Duration `json:"known"`
	Needed time.Duration `json:"needed"`
	// Latency counts the requests by latency, in a comparison of latency.
	Latency Histogram `json:"latency,omitempty"`
}

// Tick counts the requests of one group in one tick.
type Tick struct{ Bad, Total float64 }

const (
	// leastPast is the least time before a release that a comparison looks at. burstsOfPast is how many of the longest bursts fit into it, and
	// burstsNeeded how many of them must.
	leastPast    = 6 * time.Hour
	burstsOfPast = 72
	burstsNeeded = 12
	// severalScrapes is the least length of a tick of the past, and mostTicks the greatest number of them. With a dozen buckets an answer then stays below
	// 1 MiB.
	severalScrapes = 30 * time.Second
	mostTicks      = 2000
	// surroundings is the time around a block that tells its expected rate. It lets a rate change over hours.
	surroundings = 2 * time.Hour
	// correlated is the part of their unevenness that neighbouring blocks of one burst share, at least.
	correlated = 0.25
)

// PastStep is the length of a tick of the past: the interval of the metric, doubled until it has several scrapes, and until the past has no more ticks
// than an answer can hold.
func PastStep(interval, longestBurst time.Duration) time.Duration {
	return interval << shortestOfPast(interval, longestBurst)
}

// shortestOfPast is the index of the shortest blocks that the past can tell.
func shortestOfPast(interval, longestBurst time.Duration) (i int) {
	for interval<<i < max(severalScrapes, PastLength(interval, longestBurst)/mostTicks) {
		i++
	}
	return i
}

// longestOfPast is the index of the longest blocks, which last at least twice as long as the longest burst.
func longestOfPast(interval, longestBurst time.Duration) (i int) {
	for interval<<i < 2*longestBurst {
		i++
	}
	return i
}

// PastLength is how long before a release a comparison looks at the stable group.
func PastLength(interval, longestBurst time.Duration) time.Duration {
	return max(leastPast, burstsOfPast*longestBurst, burstsOfPast*interval)
}

// NewPast reads the ticks of the stable group before a release, the oldest first. Each is as long as [PastStep]. A longestBurst of 0 means that errors
// come steadily, and needs no ticks.
func NewPast(ticks []Tick, interval, longestBurst time.Duration) Past {
	if longestBurst == 0 {
		return Past{Shapes: []shapeWeights{steadyShapes()}}
	}
	longest := longestOfPast(interval, longestBurst)
	p, sums := Past{Burst: longest, Needed: burstsNeeded * max(longestBurst, interval)}, []Tick{{}}
	for _, t := range ticks {
		if t.Total > 0 {
			before := sums[len(sums)-1]
			sums = append(sums, Tick{before.Bad + t.Bad, before.Total + t.Total})
		}
	}
	seen := len(sums) - 1
	if p.Known = time.Duration(seen) * PastStep(interval, longestBurst); !p.IsEnough() {
		for range longest + 1 {
			p.Shapes = append(p.Shapes, priorShapes)
		}
		return p
	}
	shortest := shortestOfPast(interval, longestBurst)
	p.Requests, p.Share = sums[seen].Total/float64(seen)/float64(int(1)<<shortest), sums[seen].Bad/sums[seen].Total
	p.Burst = min(1, longest)
	p.Shapes = make([]shapeWeights, max(shortest, longest)+1)
	shared := true
	for i := shortest; i < len(p.Shapes); i++ {
		list := blocksOf(sums, 1<<(i-shortest), int(surroundings/PastStep(interval, longestBurst)))
		p.Shapes[i] = weighShapes(list)
		if shared = shared && correlation(list) > correlated; shared {
			p.Burst, p.Endless = min(i+1, longest), i+2 >= longest
		}
	}
	for i := shortest - 1; i >= 0; i-- {
		p.Shapes[i] = p.Shapes[i+1].halved()
	}
	p.Shapes = p.Shapes[:longest+1]
	return p
}

// IsEnough reports whether the past is long enough to tell how unevenly errors come.
func (p Past) IsEnough() bool { return p.Known >= p.Needed }

// isFor reports whether the past has blocks for this interval. One from elsewhere, or from a damaged store, has not.
func (p Past) isFor(interval, longestBurst time.Duration) bool {
	return p.longest() == longestOfPast(interval, longestBurst) && p.Burst >= 0 && p.Burst <= p.longest()
}

// longest is the index of the longest blocks.
func (p Past) longest() int { return len(p.Shapes) - 1 }

// longestBlock is the size of the longest blocks in ticks. If bursts last about as long, the first block never closes.
func (p Past) longestBlock() int {
	if p.Endless {
		return math.MaxInt
	}
	return 1 << p.longest()
}

// block counts the bad requests of some ticks, those that the rate around them lets expect, and the bad requests that this rate is known from.
type block struct{ bad, expected, known float64 }

// blocksOf divides the ticks into blocks. It takes the sums of the ticks so far, the size of a block, and the number of ticks around it that tell its rate.
func blocksOf(sums []Tick, size, around int) (list []block) {
	ticks := len(sums) - 1
	around = max(4*size, around)
	for from := 0; from+size <= ticks; from += size {
		low := max(0, min(from+size/2-around/2, ticks-around))
		high := min(ticks, low+around)
		own := Tick{sums[from+size].Bad - sums[from].Bad, sums[from+size].Total - sums[from].Total}
		others := Tick{sums[high].Bad - sums[low].Bad - own.Bad/2 + 0.5, sums[high].Total - sums[low].Total - own.Total/2}
		if expected := others.Bad / others.Total * own.Total; expected > 1e-6 {
			list = append(list, block{own.Bad, expected, others.Bad})
		}
	}
	return list
}

// correlation is the part of its unevenness that a block shares with the next one, from 0 to about 1. Unevenness below a third of chance counts as that
// much.
func correlation(list []block) float64 {
	var uneven, shared, chance float64
	for i, b := range list {
		uneven += (b.bad-b.expected)*(b.bad-b.expected) - b.expected
		chance += b.expected
		if i > 0 {
			shared += (b.bad - b.expected) * (list[i-1].bad - list[i-1].expected)
		}
	}
	return shared / max(uneven, 0.3*chance, math.SmallestNonzeroFloat64)
}

// weights returns the weights of the shapes in a block of this many ticks, and the log2 of how many times smaller its shapes are than the past's. The
// weights lie between the weights of the next shorter and the next longer blocks. A group with a part of the requests has a part of the pods and of the users,
// and its shape is that part of the past's. requests are the group's in the block.
func (p Past) weights(ticks int, requests float64) (w shapeWeights, smaller float64) {
	ticks = max(1, ticks)
	position := min(float64(p.longest()), math.Log2(float64(ticks)))
	at := int(position)
	w = p.Shapes[at]
	if part := position - float64(at); part > 0 {
		for i, next := range p.Shapes[at+1] {
			w[i] += part * (next - w[i])
		}
	}
	if p.Requests > 0 {
		smaller = max(0, math.Log2(p.Requests*float64(ticks)/requests))
	}
	if p.Endless {
		smaller += 0.5
	}
	return w, smaller
}

// multipliers returns the distribution of the log ratio of the two groups' multipliers, in a block of this many ticks.
func (p Past) multipliers(ticks int, c Counts) *distribution {
	w, smaller := p.weights(ticks, 2*c.CanaryTotal*c.StableTotal/(c.CanaryTotal+c.StableTotal))
	return w.distribution(smaller)
}

package analysis

import (
	"fmt"
	"math"
	"time"
)

// Text says, for people, what the past of a metric with this interval tells.
func (p Past) Text(interval time.Duration) string {
	switch {
	case p.Needed == 0:
		return "not needed, because bad requests are taken to come steadily (compare.longestBurst 0s)"
	case !p.IsEnough():
		return fmt.Sprintf("known for %s, and %s are needed", formatDuration(p.Known), formatDuration(p.Needed))
	}
	text := fmt.Sprintf("in %s, %s %% of the stable group's requests were bad; in addition to chance, their rate varied by %s in %s, and by %s in %s", formatDuration(p.Known),
		formatShare(p.Share), p.varied(0), formatDuration(interval), p.varied(p.longest()), formatDuration(interval<<p.longest()))
	if p.Endless {
		text += "; bursts lasted nearly as long as compare.longestBurst or longer, so the comparison decides late, or never"
	}
	return text
}

// varied is the root mean square of how much the rate of blocks varied, as a percentage of their mean.
func (p Past) varied(block int) string {
	return fmt.Sprintf("%.0f %%", 100*math.Sqrt(p.variation(block)))
}

// variation is the mean square of the coefficient of variation of a block's rate.
func (p Past) variation(block int) (sum float64) {
	for shape, w := range p.Shapes[block][:shapes] {
		sum += math.Exp(w) / shapeAt(shape)
	}
	return sum
}

// formatShare writes a share as a percentage with two significant digits.
func formatShare(share float64) string { return fmt.Sprintf("%.2g", share*100) }

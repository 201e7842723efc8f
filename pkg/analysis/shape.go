package analysis

import "math"

// shapes is the number of shapes of gamma distributions.
const shapes = 15

// shapeAt is the ith shape: 0.25, doubling to 4096. The square of the coefficient of variation of a gamma variable is 1/shape.
func shapeAt(i int) float64 { return 0.25 * math.Exp2(float64(i)) }

// shapeWeights holds the log weights of the shapes, followed by the one of steady rates. Their exponentials add up to 1.
type shapeWeights [shapes + 1]float64

// leastShape is the log of the least weight of a shape after any past, which may not repeat itself.
const leastShape = -8

// priorShapes weighs the shapes before anything is known.
var priorShapes = func() shapeWeights {
	w := shapeWeights{0.01, 0.03}
	for i := 2; i < shapes; i++ {
		w[i] = 0.05
	}
	w[shapes] = 0.31
	for i := range w {
		w[i] = math.Log(w[i])
	}
	return w
}()

// steadyShapes has only steady rates.
func steadyShapes() (w shapeWeights) {
	for i := range shapes {
		w[i] = math.Inf(-1)
	}
	return w
}

// weighShapes weighs the shapes by the negative binomial likelihood of the bad requests in each block.
func weighShapes(list []block) shapeWeights {
	// Blocks with as many bad requests, of about as many expected ones, are alike.
	type alike struct{ bad, expected, known int }
	times := map[alike]float64{}
	for _, b := range list {
		times[alike{int(math.Round(b.bad)), int(math.Round(math.Log(b.expected) * 50)), int(math.Round(math.Log(b.known) * 8))}]++
	}
	w := priorShapes
	for b, n := range times {
		bad, expected, known := float64(b.bad), math.Exp(float64(b.expected)/50), math.Exp(float64(b.known)/8)
		steady := negativeBinomial(bad, expected, known)
		for i := range shapes {
			w[i] += n * (negativeBinomial(bad, expected, 1/(1/shapeAt(i)+1/known)) - steady)
		}
	}
	return w.scaled()
}

// scaled limits the weights from below, and makes them add up to 1.
func (w shapeWeights) scaled() shapeWeights {
	top := logSum(w[:])
	for i := range w {
		w[i] = max(leastShape, w[i]-top)
	}
	sum := logSum(w[:])
	for i := range w {
		w[i] -= sum
	}
	return w
}

// halved returns weights for blocks of half the length that vary independently. If they do not, they vary less than that.
func (w shapeWeights) halved() shapeWeights {
	h := w
	h[0] = logSumOf2(w[0], w[1])
	copy(h[1:], w[2:shapes])
	h[shapes-1] = leastShape
	return h.scaled()
}

// distribution returns the distribution of the log ratio of two variables with these shapes, each divided by 2 to the power of smaller.
func (w shapeWeights) distribution(smaller float64) *distribution {
	d, sum, table := distribution{}, math.Exp(logSum(w[:])), latticeOnce()
	for i := range shapes {
		v, scaled := math.Exp(w[i])/sum, max(0, 2*i-int(math.Ceil(2*smaller)))
		for m, chance := range table[scaled] {
			d[m] += v * chance
		}
	}
	d[latticeHalf] += math.Exp(w[shapes]) / sum
	return &d
}

// atMost is the chance of at most n events with the given mean, whose rate is gamma distributed with these shapes, each divided by 2 to the power of
// smaller.
func (w shapeWeights) atMost(n, mean, smaller float64) (chance float64) {
	for i := range shapes {
		chance += math.Exp(w[i]) * atMost(n, mean, shapeAt(i)*math.Exp2(-smaller))
	}
	return chance + math.Exp(w[shapes])*atMost(n, mean, steadyShape)
}

// steadyShape is a shape so large that the rate is as good as steady.
const steadyShape = 1e9

// atMost is the chance of at most n events with the given mean, whose rate is gamma distributed.
func atMost(n, mean, shape float64) (chance float64) {
	for i := 0.0; i <= n; i++ {
		chance += math.Exp(negativeBinomial(i, mean, shape))
	}
	return chance
}

// negativeBinomial is the log probability of n events, with the given mean, whose rate is gamma distributed.
func negativeBinomial(n, mean, shape float64) float64 {
	return logGamma(n+shape) - logGamma(shape) - logGamma(n+1) + shape*math.Log(shape/(shape+mean)) + n*math.Log(mean/(shape+mean))
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

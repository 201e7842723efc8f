package analysis

import "time"

// Kind is the form of a provider's answer, in the words of Prometheus.
type Kind string

// Kinds of answers.
const (
	KindVector Kind = "vector"
	KindMatrix Kind = "matrix"
	KindScalar Kind = "scalar"
	KindString Kind = "string"
)

// Result is a provider's answer to one query, not yet judged.
type Result struct {
	Kind Kind
	// Series of a vector have one point each; series of a matrix have any number, in order of time. A scalar is one series without labels.
	Series []Series
	// Text is the value of a string.
	Text string
	// Warnings are the provider's warnings about this answer, such as a partial response. An answer with a warning is not judged, so remarks about
	// the style of a query (infos) do not belong here.
	Warnings []string
}

// Series is one time series of an answer.
type Series struct {
	Labels map[string]string
	Points []Point
	// Histogram says that some samples of the series are native histograms. Points holds none of those.
	Histogram bool
}

// Point is a float sample. NaN and infinities are as the provider sent them.
type Point struct {
	At    time.Time
	Value float64
}

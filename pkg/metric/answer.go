package metric

import (
	"fmt"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"sluice.dev/sluice/pkg/analysis"
)

// Answer is a provider's answer to a query that it could carry out.
type Answer struct {
	analysis.Result
	// Infos are remarks about the query, such as that a metric may not be a counter. The result is valid all the same.
	Infos []string
}

func newAnswer(value model.Value, warnings, infos []string) (Answer, error) {
	warnings, infos = sortTexts(warnings, infos)
	answer := Answer{Infos: infos, Result: analysis.Result{Warnings: warnings}}
	switch v := value.(type) {
	case model.Vector:
		answer.Kind = analysis.KindVector
		for _, sample := range v {
			if sample == nil {
				return Answer{}, noSeries()
			}
			answer.Series = append(answer.Series, sampleSeries(sample))
		}
	case model.Matrix:
		answer.Kind = analysis.KindMatrix
		for _, stream := range v {
			if stream == nil {
				return Answer{}, noSeries()
			}
			answer.Series = append(answer.Series, streamSeries(stream))
		}
	case *model.Scalar:
		answer.Kind = analysis.KindScalar
		answer.Series = []analysis.Series{{Points: []analysis.Point{newPoint(v.Timestamp, v.Value)}}}
	default:
		return Answer{}, &v1.Error{Type: v1.ErrBadResponse, Msg: fmt.Sprintf("it holds %T, not a vector, matrix or scalar", value)}
	}
	return answer, nil
}

// noSeries returns the error type that client_golang uses for malformed answers.
func noSeries() error { return &v1.Error{Type: v1.ErrBadResponse, Msg: "a series is null"} }

func sampleSeries(s *model.Sample) analysis.Series {
	series := analysis.Series{Labels: labelMap(s.Metric), Histogram: s.Histogram != nil}
	if !series.Histogram {
		series.Points = []analysis.Point{newPoint(s.Timestamp, s.Value)}
	}
	return series
}

func streamSeries(s *model.SampleStream) analysis.Series {
	series := analysis.Series{Labels: labelMap(s.Metric), Histogram: len(s.Histograms) > 0}
	for _, pair := range s.Values {
		series.Points = append(series.Points, newPoint(pair.Timestamp, pair.Value))
	}
	return series
}

func newPoint(at model.Time, value model.SampleValue) analysis.Point {
	return analysis.Point{At: at.Time(), Value: float64(value)}
}

func labelMap(m model.Metric) map[string]string {
	if len(m) == 0 {
		return nil
	}
	text := make(map[string]string, len(m))
	for name, value := range m {
		text[string(name)] = string(value)
	}
	return text
}

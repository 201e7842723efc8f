package rollout

import (
	"fmt"
	"strconv"
	"strings"
)

// Amount is a number of pods: absolute, or a percentage of the workload's replicas.
type Amount struct {
	Value   int32
	Percent bool
}

// ParseAmount reads "3" or "30%".
func ParseAmount(s string) (Amount, error) {
	number, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return Amount{}, fmt.Errorf("%q is neither a number of pods nor a percentage such as 20%%", s)
	}
	return Amount{Value: int32(n), Percent: percent}, nil
}

// Of returns the amount for a total, rounded up and clamped to [0, total], as OpenKruise does for steps.
func (a Amount) Of(total int32) int32 {
	n := int64(a.Value)
	if a.Percent {
		n = (n*int64(total) + 99) / 100
	}
	return int32(min(n, int64(total)))
}

func (a Amount) String() string {
	if a.Percent {
		return fmt.Sprintf("%d%%", a.Value)
	}
	return strconv.Itoa(int(a.Value))
}

// Percent is a share from 0 to 100, with up to three digits after the point.
type Percent float64

// String returns the form in a manifest.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "%" }

package analysis

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// MetricDigest identifies the measured metric. A metric with another definition or another value of an argument starts its run again. The digest
// leaves out the step and the weight of the release, because a metric of a whole release goes on from step to step.
func MetricDigest(d api.Metric, args map[string]string) (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("digest metric %s: %w", d.Name, err)
	}
	hash := sha256.New()
	hash.Write(text)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if name != api.ArgStep && name != api.ArgWeight && strings.Contains(string(text), name) {
			fmt.Fprintf(hash, "\n%d:%s=%s", len(name), name, args[name])
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
}

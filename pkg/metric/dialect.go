package metric

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// promQLInfo and promQLWarning begin the texts of Prometheus's annotations (its package util/annotations).
const (
	promQLInfo    = "PromQL info: "
	promQLWarning = "PromQL warning: "
)

// sortTexts tells remarks about a query from warnings about its answer. Prometheus 2.48 to 2.53 and Thanos write both into the field warnings. In
// distributed mode, Thanos joins several texts to one, such as "remote query warning (host:port): PromQL info: one, another". sortTexts leaves such a text
// among the warnings: one of its parts may say that a store is away, and nothing marks where a part begins.
func sortTexts(warnings, infos []string) (warned, remarked []string) {
	for _, text := range warnings {
		if strings.HasPrefix(text, promQLInfo) {
			remarked = append(remarked, text)
		} else {
			warned = append(warned, text)
		}
	}
	for _, text := range infos {
		if strings.HasPrefix(text, promQLWarning) {
			warned = append(warned, text)
		} else {
			remarked = append(remarked, text)
		}
	}
	return warned, remarked
}

// partialText is the warning about an answer of VictoriaMetrics that lacks data. vmselect says so in a field of its own, beside status and data.
const partialText = "isPartial: some of its storage nodes did not answer"

// isPartial reports whether a provider says, outside of its warnings, that data is missing in an answer.
func isPartial(body []byte) bool {
	if !bytes.Contains(body, []byte(`"isPartial"`)) {
		return false
	}
	var envelope struct {
		IsPartial any `json:"isPartial"`
	}
	return json.Unmarshal(body, &envelope) == nil && !slices.Contains([]any{nil, false}, envelope.IsPartial)
}

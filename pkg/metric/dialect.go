package metric

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// promQLInfo and promQLWarning are the prefixes of Prometheus's annotations (its package util/annotations).
const (
	promQLInfo    = "PromQL info: "
	promQLWarning = "PromQL warning: "
)

var (
	// thanosFrame is the text that a Thanos querier in distributed mode writes before the texts of another querier.
	thanosFrame = regexp.MustCompile(`^remote query warning \([^()]*\): `)
	quotedText  = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	// infoClauses are the parts of Prometheus's infos that begin with a comma, without what they quote.
	infoClauses = strings.NewReplacer(
		", name does not end in _total/_sum/_count/_bucket", "",
		", __type__ label is not set to  or , got ", "",
		", result is NaN", "",
		", result is skewed higher", "",
		", which are excluded from all fractions", "",
	)
)

// sortTexts separates remarks about a query from warnings about its answer. Prometheus 2.48 to 2.53 and Thanos write both into the field warnings.
func sortTexts(warnings, infos []string) (warned, remarked []string) {
	for _, text := range warnings {
		if isRemark(text) {
			remarked = append(remarked, text)
		} else {
			warned = append(warned, text)
		}
	}
	for _, text := range infos {
		if strings.Contains(text, promQLWarning) {
			warned = append(warned, text)
		} else {
			remarked = append(remarked, text)
		}
	}
	return warned, remarked
}

// isRemark reports whether a text of the field warnings is exactly one info of Prometheus. In distributed mode, Thanos joins the texts of another
// querier with commas to one text, and one of them may say that a store is away. Outside its quotes, an info has no commas except in the clauses of
// infoClauses.
func isRemark(text string) bool {
	info, ok := strings.CutPrefix(thanosFrame.ReplaceAllString(text, ""), promQLInfo)
	return ok && !strings.Contains(infoClauses.Replace(quotedText.ReplaceAllString(info, "")), ",")
}

// partialText is the warning about an answer of VictoriaMetrics that lacks data. vmselect says so in a field of its own, next to status and data.
const partialText = "isPartial: some of its storage nodes did not answer"

// isPartial reports whether an answer says, outside its warnings, that it lacks data.
func isPartial(body []byte) bool {
	if !bytes.Contains(body, []byte(`"isPartial"`)) {
		return false
	}
	var envelope struct {
		IsPartial any `json:"isPartial"`
	}
	return json.Unmarshal(body, &envelope) == nil && !slices.Contains([]any{nil, false}, envelope.IsPartial)
}

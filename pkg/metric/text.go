package metric

import (
	"bytes"
	"encoding/json"

	"sluice.dev/sluice/pkg/analysis"
)

// textAnswer returns an answer of the type string, or nil for other types. client_golang rejects such answers, although a query that is only a text
// is valid. Its author should learn that it is not a measurement.
func textAnswer(body []byte) *Answer {
	if !bytes.Contains(body, []byte(`"string"`)) {
		return nil
	}
	var envelope struct {
		Status string `json:"status"`
		Data   struct {
			ResultType string `json:"resultType"`
			Result     [2]any `json:"result"`
		} `json:"data"`
		Warnings []string `json:"warnings"`
		Infos    []string `json:"infos"`
	}
	if json.Unmarshal(body, &envelope) != nil || envelope.Status != "success" || envelope.Data.ResultType != "string" {
		return nil
	}
	text, ok := envelope.Data.Result[1].(string)
	if !ok {
		return nil
	}
	warnings, infos := sortTexts(envelope.Warnings, envelope.Infos)
	return &Answer{Infos: infos, Result: analysis.Result{Kind: analysis.KindString, Text: text, Warnings: warnings}}
}

package rollout

import (
	"strings"

	"sluice.dev/sluice/pkg/api"
)

// TrafficStable and the other constants are sentences about the traffic after an abort.
const (
	TrafficStable   = "All traffic is on the stable version."
	TrafficReturns  = "Traffic goes back to the stable version as its pods come back."
	TrafficUnserved = "Requests go to the stable version, and its Service reaches no ready pod."
	TrafficUnready  = "All traffic is on the stable version, which has no ready pod."
)

// CapitalizeFirst returns a text with a capital first letter. The text must not be empty.
func CapitalizeFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// LastApproval returns the newest approval that satisfies is, or nil. The list is sorted by time.
func LastApproval(list []api.Approval, is func(api.Approval) bool) *api.Approval {
	for i := len(list) - 1; i >= 0; i-- {
		if is(list[i]) {
			return &list[i]
		}
	}
	return nil
}

// EndSentence ends a text with a full stop, so another sentence can follow.
func EndSentence(s string) string {
	if s != "" && s[len(s)-1] == '.' {
		return s
	}
	return s + "."
}

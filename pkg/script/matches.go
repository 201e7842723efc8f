package script

import "slices"

// cookieHeader is OpenKruise's name of a header that stands for a cookie. Its value is the name of the cookie, not its content.
const cookieHeader = "canary-by-cookie"

// ChooseMatches returns the indexes of the matches of a step, as a Rollout has them, that the kind can express together. With nil capabilities, it
// returns all of them.
func (c *Capabilities) ChooseMatches(matches []any) []int {
	var chosen []int
	for i, match := range matches {
		if c.canExpress(match) && c.canStandWith(matches, chosen, i) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// canExpress reports whether the kind supports a step with the match alone.
func (c *Capabilities) canExpress(match any) bool {
	if c == nil || c.Referenced {
		return true
	}
	var in Input
	in.SetMatches([]any{match})
	return c.conditionRefusal(in) == ""
}

func (c *Capabilities) canStandWith(matches []any, chosen []int, next int) bool {
	together := []any{matches[next]}
	for _, i := range chosen {
		together = append(together, matches[i])
	}
	return c == nil || len(together) == 1 || c.takesSeveral(together)
}

// takesSeveral reports whether a step may have several matches that the kind supports one by one.
func (c *Capabilities) takesSeveral(matches []any) bool {
	return c.Or || c.HeaderOrCookie && len(matches) == 2 && isCookieMatch(matches[0]) != isCookieMatch(matches[1])
}

// isCookieMatch reports whether a match asks for a cookie in OpenKruise's way.
func isCookieMatch(match any) bool {
	headers, _ := memberOf(match, "headers").([]any)
	return slices.ContainsFunc(headers, func(h any) bool { return memberOf(h, "name") == cookieHeader })
}

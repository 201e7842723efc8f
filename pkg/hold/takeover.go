package hold

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
)

const (
	minReady      = "minReadySeconds"
	deadline      = "progressDeadlineSeconds"
	surge         = "maxSurge"
	unavailable   = "maxUnavailable"
	strategyType  = "type"
	rollingUpdate = "RollingUpdate"
	recreate      = "Recreate"
)

// speed has the fields of a Deployment, other than spec.paused, that an executor takes over: they say how fast it rolls.
type speed struct {
	minReady, deadline int64
	strategyType       string
	// budget has the values of rollingUpdate, each an int64 or a string.
	budget map[string]any
}

func speedOf(u *unstructured.Unstructured) speed {
	s := speed{deadline: 600, strategyType: rollingUpdate, budget: map[string]any{}}
	s.minReady, _, _ = unstructured.NestedInt64(u.Object, "spec", minReady)
	if n, found, _ := unstructured.NestedInt64(u.Object, "spec", deadline); found {
		s.deadline = n
	}
	if t, found, _ := unstructured.NestedString(u.Object, "spec", "strategy", strategyType); found && t != "" {
		s.strategyType = t
	}
	if s.strategyType == rollingUpdate {
		s.budget[surge], s.budget[unavailable] = "25%", "25%"
	}
	budget, _, _ := unstructured.NestedMap(u.Object, "spec", "strategy", "rollingUpdate")
	maps.Copy(s.budget, budget)
	return s
}

// takeover is the speed of a Deployment that is taken over: the executor's values are in force, and the owner's are in annotations.
type takeover struct {
	old, new speed
	// originals are the values that each taken-over field gets when the release ends; "" for no annotation.
	originals map[string]string
}

// takeoverOf is nil for a Deployment that is not taken over.
func takeoverOf(w *write) *takeover {
	if _, parked := w.oldAnnotations[api.AnnotationOriginalPrefix+surge]; !parked || !w.inProgress {
		return nil
	}
	p := &takeover{old: speedOf(w.old), new: speedOf(w.new), originals: map[string]string{}}
	asked := p.requestedFields()
	for _, field := range takeoverFields() {
		key := api.AnnotationOriginalPrefix + field
		value, is := asked[field]
		said, has := w.newAnnotations[key]
		was, before := w.oldAnnotations[key]
		switch {
		case is && field == strategyType && value == rollingUpdate && !before:
		case is:
			p.originals[field] = value
		case has && isOriginal(field, said): // it was decided before in this request
			p.originals[field] = said
		default:
			p.originals[field] = was
		}
	}
	return p
}

// requestedFields returns the values that the request asks for in the fields that are taken over, as text. A stored value asks for nothing. A
// replace asks for the defaults of all fields that its manifest leaves out. In a budget that does not belong to the type, the API server turns an
// absent value into 0, so a 0 there asks for nothing. A request for a budget is a request for a rolling update.
func (p *takeover) requestedFields() map[string]string {
	asked := map[string]string{}
	if p.new.minReady != p.old.minReady {
		asked[minReady] = strconv.FormatInt(p.new.minReady, 10)
	}
	if p.new.deadline != p.old.deadline {
		asked[deadline] = strconv.FormatInt(p.new.deadline, 10)
	}
	budget := false
	for _, field := range []string{surge, unavailable} {
		value, is := p.new.budget[field]
		if is && value != p.old.budget[field] && (value != int64(0) || p.new.strategyType == rollingUpdate) {
			asked[field], budget = fmt.Sprint(value), true
		}
	}
	if p.new.strategyType != p.old.strategyType || budget && p.new.strategyType == rollingUpdate {
		asked[strategyType] = p.new.strategyType
	}
	return asked
}

// isOriginal says whether an annotation reads as an original.
func isOriginal(field, text string) bool {
	switch field {
	case strategyType:
		return text == rollingUpdate || text == recreate
	case surge, unavailable:
		digits := strings.TrimSuffix(text, "%")
		return len(digits) <= 9 && number.MatchString(digits)
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n >= 0 && number.MatchString(text)
}

var (
	number        = regexp.MustCompile(`^[0-9]+$`)
	signed        = regexp.MustCompile(`^-?[0-9]{1,10}$`)
	percent       = regexp.MustCompile(`^[0-9]+%$`)
	none          = regexp.MustCompile(`^0+%?$`)
	upToAHundred  = regexp.MustCompile(`^0*(100|[0-9]{1,2})%$`)
	plainAndShort = regexp.MustCompile(`^[0-9]{1,10}$`)
)

// badSeconds, oddBudget and badStrategy report values that the API server would refuse when a release restores them. The guard puts such a value
// into the request as it is, so that the API server refuses the request now and says why. The API server must refuse each value reported here:
// otherwise the request would end the hold.
func (p *takeover) badSeconds() bool {
	if !signed.MatchString(p.originals[minReady]) || !signed.MatchString(p.originals[deadline]) {
		return false
	}
	return parseNumber(p.originals[minReady]) < 0 || parseNumber(p.originals[deadline]) <= parseNumber(p.originals[minReady])
}

func (p *takeover) oddBudget() bool {
	for _, value := range p.new.budget {
		switch v := value.(type) {
		case string:
			if !percent.MatchString(v) {
				return true
			}
		case int64:
			if v < 0 {
				return true
			}
		}
	}
	return false
}

func (p *takeover) badStrategy() bool {
	switch p.originals[strategyType] {
	case recreate:
		return false
	case "", rollingUpdate:
	default:
		return true
	}
	most := p.originals[unavailable]
	return none.MatchString(p.originals[surge]) && none.MatchString(most) ||
		strings.HasSuffix(most, "%") && !upToAHundred.MatchString(most)
}

// restoreSpeed puts the executor's speed back and the owner's into annotations. A nil parking has none.
func (p *takeover) restoreSpeed(w *write) {
	if p == nil {
		return
	}
	for _, field := range takeoverFields() {
		if value := p.originals[field]; value != "" {
			w.annotations[api.AnnotationOriginalPrefix+field] = value
		} else {
			delete(w.annotations, api.AnnotationOriginalPrefix+field)
		}
	}
	p.restoreSeconds(w)
	p.restoreStrategy(w)
}

func (p *takeover) restoreSeconds(w *write) {
	for field, changed := range map[string]bool{minReady: p.new.minReady != p.old.minReady, deadline: p.new.deadline != p.old.deadline} {
		old, was, _ := unstructured.NestedFieldNoCopy(w.old.Object, "spec", field)
		switch {
		case p.badSeconds():
			w.setField(parseNumber(p.originals[field]), "spec", field)
		case changed && was:
			w.setField(old, "spec", field)
		case changed:
			unstructured.RemoveNestedField(w.out.Object, "spec", field)
		}
	}
}

func (p *takeover) restoreStrategy(w *write) {
	old, _, _ := unstructured.NestedMap(w.old.Object, "spec", "strategy")
	switch {
	case p.oddBudget():
	case !p.badStrategy():
		w.setField(old, "spec", "strategy")
	default:
		kind := p.originals[strategyType]
		if kind == "" {
			kind = rollingUpdate
		}
		w.setField(map[string]any{"type": kind, "rollingUpdate": map[string]any{
			surge: parseBudget(p.originals[surge]), unavailable: parseBudget(p.originals[unavailable]),
		}}, "spec", "strategy")
	}
}

// asksNothing says that the request asks for nothing that is not remembered already.
func (p *takeover) asksNothing(w *write) bool {
	if p == nil {
		return true
	}
	was := map[string]string{}
	for _, field := range takeoverFields() {
		was[field] = w.oldAnnotations[api.AnnotationOriginalPrefix+field]
	}
	now := map[string]string{}
	for _, field := range takeoverFields() {
		now[field] = p.originals[field]
	}
	return !p.badSeconds() && !p.oddBudget() && !p.badStrategy() && equality.Semantic.DeepEqual(was, now)
}

func parseBudget(text string) any {
	if plainAndShort.MatchString(text) {
		return parseNumber(text)
	}
	return text
}

// parseNumber parses text that has matched a number.
func parseNumber(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

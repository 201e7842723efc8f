package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Table holds the routes of requests. The zero value has no route.
type Table struct{ rules []rule }

// rule applies to requests that one of its matches accepts, or to all requests if it has none.
type rule struct {
	matches []match
	to      []destination
	total   int
}

type destination struct {
	service string
	weight  int
}

// virtualService has the fields of a VirtualService that route HTTP requests.
type virtualService struct {
	HTTP []struct {
		Match []json.RawMessage `json:"match"`
		Route []struct {
			Destination struct {
				Host   string `json:"host"`
				Subset string `json:"subset"`
			} `json:"destination"`
			Weight int `json:"weight"`
		} `json:"route"`
	} `json:"http"`
}

// Parse reads a VirtualService. It returns an error for routes that a Table cannot express.
func Parse(object *unstructured.Unstructured) (Table, error) {
	body, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return Table{}, fmt.Errorf("read VirtualService %s: %w", object.GetName(), err)
	}
	var spec virtualService
	if err := json.Unmarshal(body, &spec); err != nil {
		return Table{}, fmt.Errorf("read VirtualService %s: %w", object.GetName(), err)
	}
	var t Table
	for i, h := range spec.HTTP {
		var r rule
		for _, m := range h.Match {
			parsed, err := parseMatch(m)
			if err != nil {
				return Table{}, fmt.Errorf("read VirtualService %s: http[%d]: %w", object.GetName(), i, err)
			}
			r.matches = append(r.matches, parsed)
		}
		for _, to := range h.Route {
			switch {
			case to.Destination.Subset != "":
				err = errors.New("it routes to a subset, and this router knows Services only")
			case to.Weight < 0:
				err = fmt.Errorf("it has the weight %d", to.Weight)
			}
			if err != nil {
				return Table{}, fmt.Errorf("read VirtualService %s: http[%d]: %w", object.GetName(), i, err)
			}
			service, _, _ := strings.Cut(to.Destination.Host, ".")
			r.to = append(r.to, destination{service, to.Weight})
			r.total += to.Weight
		}
		if len(r.to) == 1 {
			r.to[0].weight, r.total = 100, 100 // Istio does not require the weight of the only destination
		}
		t.rules = append(t.rules, r)
	}
	return t, nil
}

func parseMatch(text json.RawMessage) (match, error) {
	var m match
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return m, fmt.Errorf("this router matches by uri, headers and queryParams only: %w", err)
	}
	return m, m.compile()
}

// Choose returns the Service of a request, according to the first rule that applies. dice, in [0, 1), selects one of the destinations of the rule. Without a
// rule, or a destination with weight, Choose returns "".
func (t Table) Choose(request *http.Request, dice float64) string {
	for _, r := range t.rules {
		if !r.holds(request) {
			continue
		}
		point := dice * float64(r.total)
		for _, to := range r.to {
			if point < float64(to.weight) {
				return to.service
			}
			point -= float64(to.weight)
		}
		return ""
	}
	return ""
}

func (r rule) holds(request *http.Request) bool {
	for _, m := range r.matches {
		if m.holds(request) {
			return true
		}
	}
	return len(r.matches) == 0
}

// Share returns the part, from 0 to 1, of the requests without a match that a Service gets.
func (t Table) Share(service string) float64 {
	for _, r := range t.rules {
		if len(r.matches) > 0 || r.total == 0 {
			continue
		}
		sum := 0
		for _, to := range r.to {
			if to.service == service {
				sum += to.weight
			}
		}
		return float64(sum) / float64(r.total)
	}
	return 0
}

// Reaches reports whether any request may go to a Service.
func (t Table) Reaches(service string) bool {
	for _, r := range t.rules {
		for _, to := range r.to {
			if to.service == service && to.weight > 0 {
				return true
			}
		}
	}
	return false
}

// String returns a text like "version exact canary -> b; shop 80%, shop-canary 20%".
func (t Table) String() string {
	var rules []string
	for _, r := range t.rules {
		var to, when []string
		for _, d := range r.to {
			if r.total > 0 {
				to = append(to, fmt.Sprintf("%s %.4g%%", d.service, 100*float64(d.weight)/float64(r.total)))
			}
		}
		for _, m := range r.matches {
			when = append(when, m.String())
		}
		text := strings.Join(to, ", ")
		if len(when) > 0 {
			text = strings.Join(when, " or ") + " -> " + text
		}
		rules = append(rules, text)
	}
	return strings.Join(rules, "; ")
}

package analysis

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatExpressionsDecide(t *testing.T) {
	t.Parallel()
	args := map[string]string{"limit": "0.5"}
	for name, c := range map[string]struct {
		pass, fail string
		values     []float64
		want       Outcome
	}{
		"passWhen alone, met":                 {"value < 1", "", []float64{0.5}, OutcomePass},
		"passWhen alone, not met":             {"value < 1", "", []float64{1}, OutcomeFail},
		"failWhen alone, met":                 {"", "value >= 1", []float64{1}, OutcomeFail},
		"failWhen alone, not met":             {"", "value >= 1", []float64{0.5}, OutcomePass},
		"both met":                            {"value > 0", "value > 1", []float64{2}, OutcomeError},
		"neither met":                         {"value > 2", "value < 1", []float64{1.5}, OutcomeInconclusive},
		"equal to a whole number":             {"value == 1", "", []float64{1}, OutcomePass},
		"unlike a whole number":               {"1 != value", "", []float64{1.5}, OutcomePass},
		"not equal to a whole number":         {"value == 1", "value != 1", []float64{1.5}, OutcomeFail},
		"a number of values":                  {"size(values) == 2 && values.all(v, v == 1)", "", []float64{1, 1}, OutcomePass},
		"values":                              {"values.all(v, v < 2.0) && size(values) == 2", "", []float64{1, 1.5}, OutcomePass},
		"an argument":                         {"value < double(args.limit)", "", []float64{0.4}, OutcomePass},
		"an index that is out of range":       {"values[3] < 1.0", "", []float64{0.4}, OutcomeError},
		"an argument that is no number":       {"value < double(args['limit'] + 'x')", "", []float64{0.4}, OutcomeError},
		"more work than an expression may do": {"values.all(a, values.all(b, values.all(c, a + b + c > 0.0)))", "", make([]float64, 0, 200), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.want
			if want == "" {
				want = OutcomeError
				for range 200 {
					c.values = append(c.values, 1)
				}
			}
			rule, err := new(expressionCache).newRule(c.pass, c.fail, args)
			if err != nil {
				t.Fatal(err)
			}
			got, message := rule.outcomeOf(c.values[0], c.values)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff, message)
			}
			if !strings.HasSuffix(message, ".") {
				t.Errorf("not a sentence: %q", message)
			}
		})
	}
}

func TestWhichExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pass, fail, field, word string }{
		"none at all":                          {"", "", "passWhen", "at least one"},
		"a number":                             {"value", "", "passWhen", "compare it"},
		"a syntax error":                       {"", "value <", "failWhen", "Syntax error"},
		"a name that does not exist":           {"vaule < 1", "", "passWhen", "undeclared reference to 'vaule'"},
		"an argument that is not given":        {"value < double(args.max)", "", "passWhen", "not given"},
		"a string that equals a number":        {"value == '1'", "", "passWhen", "no matching overload"},
		"an argument that equals a number":     {"args.limit == 1", "", "passWhen", "no matching overload"},
		"a string beside a number":             {"value < '1'", "", "passWhen", "no matching overload"},
		"a text that is longer than it may be": {strings.Repeat("value < 1.0 && ", 100) + "true", "", "passWhen", "size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := new(expressionCache).newRule(c.pass, c.fail, map[string]string{"limit": "1"})
			var wrong *FieldError
			if !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(wrong.Problem, c.word) {
				t.Errorf("got %v, want field %s and %q", err, c.field, c.word)
			}
		})
	}
}

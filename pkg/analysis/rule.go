package analysis

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
)

const (
	// ruleCost bounds the cost of one evaluation of an expression, in CEL's units: enough for some thousand values that it reads several times.
	ruleCost = 100_000
	// ruleLength bounds the text of an expression.
	ruleLength = 1024
)

// Rule judges values by one or two expressions. With passWhen alone, a value that does not pass fails. With failWhen alone, a value that does not
// fail passes. With both, a value that matches neither is inconclusive.
type Rule struct {
	pass, fail *expression
	args       map[string]string
}

type expression struct {
	text    string
	program cel.Program
}

// manyExpressions is the size of the cache of compiled expressions.
const manyExpressions = 1024

// expressionCache caches expressions by their text.
type expressionCache struct {
	mu     sync.Mutex
	byText map[string]*expression
}

// newRule makes a rule of the expressions. The error names the wrong one.
func (c *expressionCache) newRule(passWhen, failWhen string, args map[string]string) (*Rule, error) {
	if passWhen == "" && failWhen == "" {
		return nil, newFieldError("passWhen", "passWhen and failWhen are both missing; give at least one, such as passWhen: \"value >= 0.99\"")
	}
	r := &Rule{args: args}
	var err error
	if r.pass, err = c.compileCached("passWhen", passWhen, args); err != nil {
		return nil, err
	}
	if r.fail, err = c.compileCached("failWhen", failWhen, args); err != nil {
		return nil, err
	}
	return r, nil
}

// compileCached returns nil for an absent expression. It also evaluates the expression once, because only that shows a missing argument.
func (c *expressionCache) compileCached(field, text string, args map[string]string) (*expression, error) {
	if text == "" {
		return nil, nil
	}
	c.mu.Lock()
	e := c.byText[text]
	c.mu.Unlock()
	if e == nil {
		var err error
		if e, err = compileExpression(field, text); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if c.byText == nil || len(c.byText) >= manyExpressions {
			c.byText = map[string]*expression{}
		}
		c.byText[text] = e
		c.mu.Unlock()
	}
	if _, err := e.isTrue(1, []float64{1}, args); err != nil && strings.Contains(err.Error(), "no such key") {
		return nil, newFieldError(field, "%q names an argument that is not given: %s", text, err)
	}
	return e, nil
}

func compileExpression(field, text string) (*expression, error) {
	env, err := ruleEnv()
	if err != nil {
		return nil, fmt.Errorf("prepare expressions: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, newFieldError(field, "%s", firstIssue(issues))
	}
	if ast.OutputType() != cel.BoolType {
		return nil, newFieldError(field, "%q gives a %s; compare it with something, such as value < 0.5", text, ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(ruleCost))
	if err != nil {
		return nil, newFieldError(field, "%s", err)
	}
	return &expression{text: text, program: program}, nil
}

func firstIssue(issues *cel.Issues) string {
	first := issues.Errors()[0]
	return fmt.Sprintf("%s (column %d)", strings.TrimSuffix(first.Message, "."), first.Location.Column()+1)
}

func (e *expression) isTrue(value float64, values []float64, args map[string]string) (bool, error) {
	out, _, err := e.program.Eval(map[string]any{"value": value, "values": values, "args": args})
	if err != nil {
		return false, err
	}
	yes, is := out.Value().(bool)
	if !is {
		return false, errors.New("not a boolean")
	}
	return yes, nil
}

// outcomeOf decides about one value among all.
func (r *Rule) outcomeOf(value float64, values []float64) (Outcome, string) {
	pass, fail := r.pass == nil, r.fail == nil
	var err error
	if r.pass != nil {
		if pass, err = r.pass.isTrue(value, values, r.args); err != nil {
			return OutcomeError, evaluationError("passWhen", r.pass, err)
		}
		if r.fail == nil {
			fail = !pass
		}
	}
	if r.fail != nil {
		if fail, err = r.fail.isTrue(value, values, r.args); err != nil {
			return OutcomeError, evaluationError("failWhen", r.fail, err)
		}
		if r.pass == nil {
			pass = !fail
		}
	}
	switch {
	case pass && fail:
		return OutcomeError, fmt.Sprintf("The value %s meets both passWhen (%s) and failWhen (%s); mend the template so that no value can.", formatNumber(value), r.pass.text, r.fail.text)
	case pass:
		return OutcomePass, fmt.Sprintf("The value %s passes%s.", formatNumber(value), r.reasonText(OutcomePass))
	case fail:
		return OutcomeFail, fmt.Sprintf("The value %s fails%s.", formatNumber(value), r.reasonText(OutcomeFail))
	}
	return OutcomeInconclusive, fmt.Sprintf("The value %s meets neither passWhen (%s) nor failWhen (%s).", formatNumber(value), r.pass.text, r.fail.text)
}

// reasonText quotes the expression that decided.
func (r *Rule) reasonText(o Outcome) string {
	switch {
	case o == OutcomePass && r.pass != nil:
		return " " + r.pass.text
	case o == OutcomePass:
		return ": not " + r.fail.text
	case r.fail != nil:
		return ": " + r.fail.text
	}
	return " " + r.pass.text
}

func evaluationError(field string, e *expression, err error) string {
	return fmt.Sprintf("The expression %s (%s) cannot be evaluated: %s; mend the template.", field, e.text, strings.TrimSuffix(err.Error(), "."))
}

package analysis

import "fmt"

// FieldError says which field of a metric is wrong, and how to fix it.
type FieldError struct {
	// Field is the path inside the metric, such as minSamples.query.
	Field string
	// Problem is the rest of the sentence after the field's name: the fault and how to fix it.
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func newFieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

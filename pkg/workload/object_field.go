package workload

import (
	"strconv"

	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload/kinds"
)

// fieldValue is the value that a text of a field means. It is nil for the default and for a text that cannot be read: the field goes then, so that
// nothing of ours stays in managedFields. The admission policies write the same texts.
func fieldValue(f kinds.Field, text string) any {
	switch f.Form {
	case kinds.Amount:
		return amountValue(text)
	case kinds.Number:
		return numberValue(text)
	case kinds.Boolean:
		if text == "true" {
			return true
		}
	case kinds.UpdateType:
		if text == kinds.OnDelete {
			return kinds.OnDelete
		}
	}
	return nil
}

func numberValue(text string) any {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		return nil
	}
	return n
}

func amountValue(text string) any {
	amount, err := rollout.ParseAmount(text)
	switch {
	case err != nil || amount == rollout.Amount{}:
		return nil
	case amount.Percent:
		return amount.String()
	}
	return int64(amount.Value)
}

func specPath(path []string) []string { return append([]string{"spec"}, path...) }

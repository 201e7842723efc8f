package analysis

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// ruleEnv gives expressions the variables value, values and args, and CEL's standard library. Whole numbers can be compared with the variables. For
// == and != this needs operators of our own: CEL's need equal types, so that value == 1 would be an error and value >= 1 would not.
var ruleEnv = sync.OnceValues(func() (*cel.Env, error) {
	others := &env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction(operators.Equals), env.NewFunction(operators.NotEquals)}}
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(others)),
		cel.Variable("value", cel.DoubleType),
		cel.Variable("values", cel.ListType(cel.DoubleType)),
		cel.Variable("args", cel.MapType(cel.StringType, cel.StringType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(ruleLength),
		cel.Function(operators.Equals, equalityOverloads("equals", types.Equal)...),
		cel.Function(operators.NotEquals, equalityOverloads("not_equals", func(a, b ref.Val) ref.Val {
			if equal, is := types.Equal(a, b).(types.Bool); is {
				return !equal
			}
			return types.Equal(a, b)
		})...),
	)
})

// equalityOverloads returns the overloads for allowed comparisons: numbers with numbers, and other types with themselves.
func equalityOverloads(name string, compare func(a, b ref.Val) ref.Val) []cel.FunctionOpt {
	options := []cel.FunctionOpt{cel.SingletonBinaryBinding(compare)}
	overload := func(a, b *cel.Type) {
		options = append(options, cel.Overload(name+"_"+a.String()+"_"+b.String(), []*cel.Type{a, b}, cel.BoolType))
	}
	numbers := []*cel.Type{cel.DoubleType, cel.IntType, cel.UintType}
	for _, a := range numbers {
		for _, b := range numbers {
			overload(a, b)
		}
	}
	for _, same := range []*cel.Type{
		cel.StringType, cel.BoolType, cel.BytesType, cel.DurationType, cel.TimestampType, cel.ListType(cel.DynType), cel.MapType(cel.DynType, cel.DynType),
	} {
		overload(same, same)
	}
	return options
}

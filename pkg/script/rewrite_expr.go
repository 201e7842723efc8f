package script

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

func (rw *rewriter) exprs(es []ast.Expr, depth int) {
	for i, e := range es {
		es[i] = rw.expr(e, depth)
	}
}

func (rw *rewriter) expr(e ast.Expr, depth int) ast.Expr {
	if e == nil || !rw.enter(e, depth+1) {
		return e
	}
	depth++
	switch e := e.(type) {
	case *ast.IdentExpr:
		rw.names(e, e.Value)
		rw.constant(e, e.Value)
	case *ast.NumberExpr:
		rw.constant(e, e.Value)
	case *ast.StringExpr:
		rw.constant(e, e.Value)
		if strings.HasPrefix(e.Value, opPrefix) {
			rw.refuse(e, "a string begins like the name of an operator of the engine")
		}
	case *ast.Comma3Expr:
		c := call(e, opVararg, &ast.Comma3Expr{})
		position(c.Args[0], e)
		c.AdjustRet = e.AdjustRet
		return c
	case *ast.AttrGetExpr:
		named := isName(e.Key) || isNumber(e.Key)
		e.Object, e.Key = rw.expr(e.Object, depth), rw.expr(e.Key, depth)
		if !named {
			e.Key = weighed(e.Key)
		}
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = rw.expr(f.Key, depth), rw.expr(f.Value, depth)
		}
		return rw.table(e)
	case *ast.FuncCallExpr:
		rw.names(e, e.Method)
		rw.constant(e, e.Method)
		e.Func, e.Receiver = rw.expr(e.Func, depth), rw.expr(e.Receiver, depth)
		rw.exprs(e.Args, depth)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = rw.expr(e.Lhs, depth), rw.expr(e.Rhs, depth)
	case *ast.RelationalOpExpr:
		cheap := isCheap(e.Lhs) || isCheap(e.Rhs)
		e.Lhs, e.Rhs = rw.expr(e.Lhs, depth), rw.expr(e.Rhs, depth)
		if !cheap {
			e.Lhs = weighed(e.Lhs)
		}
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = rw.operand(e.Lhs, depth), rw.operand(e.Rhs, depth)
	case *ast.StringConcatOpExpr:
		return rw.concat(e, depth)
	case *ast.UnaryMinusOpExpr:
		e.Expr = rw.operand(e.Expr, depth)
	case *ast.UnaryNotOpExpr:
		e.Expr = rw.expr(e.Expr, depth)
	case *ast.UnaryLenOpExpr:
		args := []ast.Expr{rw.expr(e.Expr, depth)}
		single(args)
		return call(e, opLength, args...)
	case *ast.FunctionExpr:
		rw.function(e, depth)
		return call(e, opFunction, e)
	}
	return e
}

// operand pays for an operand that may be a long string.
func (rw *rewriter) operand(e ast.Expr, depth int) ast.Expr {
	number := isNumber(e)
	e = rw.expr(e, depth)
	if number {
		return e
	}
	return weighed(e)
}

func weighed(e ast.Expr) ast.Expr {
	args := []ast.Expr{e}
	single(args)
	return call(e, opWeigh, args...)
}

// isNumber: e is a number, or an error.
func isNumber(e ast.Expr) bool {
	switch e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return true
	}
	return false
}

// isCheap: whatever e is compared with, the comparison is short.
func isCheap(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr:
		return true
	case *ast.StringExpr:
		return len(e.Value) <= maxName
	}
	return isNumber(e)
}

func (rw *rewriter) function(f *ast.FunctionExpr, depth int) {
	rw.names(f, f.ParList.Names...)
	if rw.functions++; rw.functions > maxFunctions {
		rw.refuse(f, fmt.Sprintf("the script has more than %d functions", maxFunctions))
	}
	f.Stmts = rw.block(f.Stmts, depth)
	if f.ParList.HasVargs {
		f.Stmts = rw.touchVarargs(f.Stmts, f)
	}
}

// touchVarargs has a vararg function look at its varargs once: the engine would
// otherwise build the table "arg" of Lua 5.0 at each call, unmetered.
func (rw *rewriter) touchVarargs(body []ast.Stmt, at ast.PositionHolder) []ast.Stmt {
	touch := position(&ast.LocalAssignStmt{
		Names: []string{rw.temp()},
		Exprs: []ast.Expr{position(&ast.Comma3Expr{AdjustRet: true}, at)},
	}, at)
	return append([]ast.Stmt{touch}, body...)
}

// concat flattens a..b..c, which the parser nests to the right.
func (rw *rewriter) concat(e *ast.StringConcatOpExpr, depth int) ast.Expr {
	args := []ast.Expr{rw.expr(e.Lhs, depth)}
	rest := e.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok || len(args) == 100 {
			break
		}
		if !rw.enter(next, depth) {
			return e
		}
		args = append(args, rw.expr(next.Lhs, depth))
		rest = next.Rhs
	}
	args = append(args, rw.expr(rest, depth))
	single(args)
	return call(e, opConcat, args...)
}

// table wraps a constructor, so that each table is paid for, and its computed
// keys, so that {[16000]=1} is.
func (rw *rewriter) table(e *ast.TableExpr) ast.Expr {
	for _, f := range e.Fields {
		if f.Key != nil && !isName(f.Key) {
			args := []ast.Expr{f.Key}
			single(args)
			f.Key = call(f.Key, opKey, args...)
		}
	}
	if len(e.Fields) == 0 {
		return call(e, opTable)
	}
	return call(e, opTable, e)
}

// call builds a call of a host function that gives exactly one value.
func call(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	f := position(&ast.StringExpr{Value: name}, at)
	return position(&ast.FuncCallExpr{Func: f, Args: args, AdjustRet: true}, at)
}

// noTailCall passes the values of a tail call on. The engine remembers each of a
// frame's tail calls, and writes a line for each whenever an error is caught.
func noTailCall(s *ast.ReturnStmt) {
	if len(s.Exprs) != 1 {
		return
	}
	if c, ok := s.Exprs[0].(*ast.FuncCallExpr); ok && !c.AdjustRet {
		pass := call(s, opVararg, c)
		pass.AdjustRet = false
		s.Exprs[0] = pass
	}
}

// single makes sure that the last operand stands for one value, not for all
// the values of a call.
func single(es []ast.Expr) {
	switch e := es[len(es)-1].(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
}

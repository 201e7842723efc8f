package script

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

func (rw *rewriter) rewriteExprs(es []ast.Expr, depth int) {
	for i, e := range es {
		es[i] = rw.rewriteExpr(e, depth)
	}
}

func (rw *rewriter) rewriteExpr(e ast.Expr, depth int) ast.Expr {
	if e == nil || !rw.countNode(e, depth+1) {
		return e
	}
	depth++
	switch e := e.(type) {
	case *ast.IdentExpr:
		rw.checkNames(e, e.Value)
		rw.addConstant(e, e.Value)
	case *ast.NumberExpr:
		rw.addConstant(e, e.Value)
	case *ast.StringExpr:
		rw.addConstant(e, e.Value)
		if strings.HasPrefix(e.Value, opPrefix) {
			rw.refuse(e, "a string begins like the name of an operator of the engine")
		}
	case *ast.Comma3Expr:
		c := hostCall(e, opVararg, &ast.Comma3Expr{})
		copyPosition(c.Args[0], e)
		c.AdjustRet = e.AdjustRet
		return c
	case *ast.AttrGetExpr:
		named := isName(e.Key) || isNumber(e.Key)
		e.Object, e.Key = rw.rewriteExpr(e.Object, depth), rw.rewriteExpr(e.Key, depth)
		if !named {
			e.Key = chargedOperand(e.Key)
		}
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = rw.rewriteExpr(f.Key, depth), rw.rewriteExpr(f.Value, depth)
		}
		return rw.rewriteTable(e)
	case *ast.FuncCallExpr:
		rw.checkNames(e, e.Method)
		rw.addConstant(e, e.Method)
		e.Func, e.Receiver = rw.rewriteExpr(e.Func, depth), rw.rewriteExpr(e.Receiver, depth)
		rw.rewriteExprs(e.Args, depth)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = rw.rewriteExpr(e.Lhs, depth), rw.rewriteExpr(e.Rhs, depth)
	case *ast.RelationalOpExpr:
		cheap := isCheap(e.Lhs) || isCheap(e.Rhs)
		e.Lhs, e.Rhs = rw.rewriteExpr(e.Lhs, depth), rw.rewriteExpr(e.Rhs, depth)
		if !cheap {
			e.Lhs = chargedOperand(e.Lhs)
		}
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = rw.rewriteOperand(e.Lhs, depth), rw.rewriteOperand(e.Rhs, depth)
	case *ast.StringConcatOpExpr:
		return rw.rewriteConcat(e, depth)
	case *ast.UnaryMinusOpExpr:
		e.Expr = rw.rewriteOperand(e.Expr, depth)
	case *ast.UnaryNotOpExpr:
		e.Expr = rw.rewriteExpr(e.Expr, depth)
	case *ast.UnaryLenOpExpr:
		args := []ast.Expr{rw.rewriteExpr(e.Expr, depth)}
		adjustToOne(args)
		return hostCall(e, opLength, args...)
	case *ast.FunctionExpr:
		rw.rewriteFunction(e, depth)
		return hostCall(e, opFunction, e)
	}
	return e
}

// rewriteOperand charges for an operand that may be a long string.
func (rw *rewriter) rewriteOperand(e ast.Expr, depth int) ast.Expr {
	number := isNumber(e)
	e = rw.rewriteExpr(e, depth)
	if number {
		return e
	}
	return chargedOperand(e)
}

func chargedOperand(e ast.Expr) ast.Expr {
	args := []ast.Expr{e}
	adjustToOne(args)
	return hostCall(e, opWeigh, args...)
}

// isNumber reports whether e evaluates to a number, or to an error.
func isNumber(e ast.Expr) bool {
	switch e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return true
	}
	return false
}

// isCheap reports whether every comparison with e is short.
func isCheap(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr:
		return true
	case *ast.StringExpr:
		return len(e.Value) <= maxName
	}
	return isNumber(e)
}

func (rw *rewriter) rewriteFunction(f *ast.FunctionExpr, depth int) {
	rw.checkNames(f, f.ParList.Names...)
	if rw.functions++; rw.functions > maxFunctions {
		rw.refuse(f, fmt.Sprintf("the script has more than %d functions", maxFunctions))
	}
	f.Stmts = rw.rewriteBlock(f.Stmts, depth)
	if f.ParList.HasVargs {
		f.Stmts = rw.touchVarargs(f.Stmts, f)
	}
}

// touchVarargs makes a vararg function read its varargs once. Otherwise the engine
// would build the table "arg" of Lua 5.0 at each call, unmetered.
func (rw *rewriter) touchVarargs(body []ast.Stmt, at ast.PositionHolder) []ast.Stmt {
	touch := copyPosition(&ast.LocalAssignStmt{
		Names: []string{rw.tempName()},
		Exprs: []ast.Expr{copyPosition(&ast.Comma3Expr{AdjustRet: true}, at)},
	}, at)
	return append([]ast.Stmt{touch}, body...)
}

// rewriteConcat flattens a..b..c, which the parser nests to the right.
func (rw *rewriter) rewriteConcat(e *ast.StringConcatOpExpr, depth int) ast.Expr {
	args := []ast.Expr{rw.rewriteExpr(e.Lhs, depth)}
	rest := e.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok || len(args) == 100 {
			break
		}
		if !rw.countNode(next, depth) {
			return e
		}
		args = append(args, rw.rewriteExpr(next.Lhs, depth))
		rest = next.Rhs
	}
	args = append(args, rw.rewriteExpr(rest, depth))
	adjustToOne(args)
	return hostCall(e, opConcat, args...)
}

// rewriteTable wraps a constructor, so that the run is charged for each table, and
// for computed keys such as {[16000]=1}.
func (rw *rewriter) rewriteTable(e *ast.TableExpr) ast.Expr {
	for _, f := range e.Fields {
		if f.Key != nil && !isName(f.Key) {
			args := []ast.Expr{f.Key}
			adjustToOne(args)
			f.Key = hostCall(f.Key, opKey, args...)
		}
	}
	if len(e.Fields) == 0 {
		return hostCall(e, opTable)
	}
	return hostCall(e, opTable, e)
}

// hostCall builds a call of a host function that gives exactly one value.
func hostCall(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	f := copyPosition(&ast.StringExpr{Value: name}, at)
	return copyPosition(&ast.FuncCallExpr{Func: f, Args: args, AdjustRet: true}, at)
}

// noTailCall passes on the values of a tail call. The engine remembers each of a
// frame's tail calls, and writes a line for each whenever an error is caught.
func noTailCall(s *ast.ReturnStmt) {
	if len(s.Exprs) != 1 {
		return
	}
	if c, ok := s.Exprs[0].(*ast.FuncCallExpr); ok && !c.AdjustRet {
		pass := hostCall(s, opVararg, c)
		pass.AdjustRet = false
		s.Exprs[0] = pass
	}
}

// adjustToOne makes the last operand stand for one value, not for all the values of
// a call.
func adjustToOne(es []ast.Expr) {
	switch e := es[len(es)-1].(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
}

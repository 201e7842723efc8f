package script

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// Names of the host functions that the rewriter calls. They begin with a zero
// byte, so no script can spell them.
const (
	opConcat = "\x00concat" // a..b..c
	opTable  = "\x00table"  // {...}
	opVararg = "\x00vararg" // ...
	opStore  = "\x00store"  // t[k] = v
	opKey    = "\x00key"    // the k of {[k]=v}
	opLength = "\x00length" // #t
)

// rewriter measures a parsed script and replaces the operations whose cost does
// not show in the number of instructions by calls of metered host functions:
// concatenation, table constructors, varargs, lengths and assignments to
// computed keys.
type rewriter struct {
	nodes    int
	line     int
	temps    int
	tooLarge bool
}

// enter counts a node; false means: stop descending.
func (rw *rewriter) enter(n ast.PositionHolder, depth int) bool {
	rw.nodes++
	if !rw.tooLarge && (depth > maxDepth || rw.nodes > maxNodes) {
		rw.tooLarge, rw.line = true, n.Line()
	}
	return !rw.tooLarge
}

func (rw *rewriter) block(stmts []ast.Stmt, depth int) []ast.Stmt {
	for i, s := range stmts {
		stmts[i] = rw.stmt(s, depth+1)
	}
	return stmts
}

func (rw *rewriter) stmt(s ast.Stmt, depth int) ast.Stmt {
	if !rw.enter(s, depth) {
		return s
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		rw.exprs(s.Lhs, depth)
		rw.exprs(s.Rhs, depth)
		return rw.assign(s)
	case *ast.LocalAssignStmt:
		rw.exprs(s.Exprs, depth)
	case *ast.FuncCallStmt:
		s.Expr = rw.expr(s.Expr, depth)
	case *ast.DoBlockStmt:
		s.Stmts = rw.block(s.Stmts, depth)
	case *ast.WhileStmt:
		s.Condition = rw.expr(s.Condition, depth)
		s.Stmts = rw.block(s.Stmts, depth)
	case *ast.RepeatStmt:
		s.Condition = rw.expr(s.Condition, depth)
		s.Stmts = rw.block(s.Stmts, depth)
	case *ast.IfStmt:
		s.Condition = rw.expr(s.Condition, depth)
		s.Then = rw.block(s.Then, depth)
		s.Else = rw.block(s.Else, depth)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = rw.expr(s.Init, depth), rw.expr(s.Limit, depth), rw.expr(s.Step, depth)
		s.Stmts = rw.block(s.Stmts, depth)
	case *ast.GenericForStmt:
		rw.exprs(s.Exprs, depth)
		s.Stmts = rw.block(s.Stmts, depth)
	case *ast.FuncDefStmt:
		s.Name.Func = rw.expr(s.Name.Func, depth)
		s.Name.Receiver = rw.expr(s.Name.Receiver, depth)
		rw.function(s.Func, depth)
	case *ast.ReturnStmt:
		rw.exprs(s.Exprs, depth)
		noTailCall(s)
	}
	return s
}

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
	case *ast.Comma3Expr:
		c := call(e, opVararg, &ast.Comma3Expr{})
		position(c.Args[0], e)
		c.AdjustRet = e.AdjustRet
		return c
	case *ast.AttrGetExpr:
		e.Object, e.Key = rw.expr(e.Object, depth), rw.expr(e.Key, depth)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = rw.expr(f.Key, depth), rw.expr(f.Value, depth)
		}
		return rw.table(e)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = rw.expr(e.Func, depth), rw.expr(e.Receiver, depth)
		rw.exprs(e.Args, depth)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = rw.expr(e.Lhs, depth), rw.expr(e.Rhs, depth)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = rw.expr(e.Lhs, depth), rw.expr(e.Rhs, depth)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = rw.expr(e.Lhs, depth), rw.expr(e.Rhs, depth)
	case *ast.StringConcatOpExpr:
		return rw.concat(e, depth)
	case *ast.UnaryMinusOpExpr:
		e.Expr = rw.expr(e.Expr, depth)
	case *ast.UnaryNotOpExpr:
		e.Expr = rw.expr(e.Expr, depth)
	case *ast.UnaryLenOpExpr:
		args := []ast.Expr{rw.expr(e.Expr, depth)}
		single(args)
		return call(e, opLength, args...)
	case *ast.FunctionExpr:
		rw.function(e, depth)
	}
	return e
}

// function touches the varargs of a vararg function once: the engine would
// otherwise build the table "arg" of Lua 5.0 at each call, unmetered.
func (rw *rewriter) function(f *ast.FunctionExpr, depth int) {
	f.Stmts = rw.block(f.Stmts, depth)
	if !f.ParList.HasVargs {
		return
	}
	touch := position(&ast.LocalAssignStmt{
		Names: []string{rw.temp()},
		Exprs: []ast.Expr{position(&ast.Comma3Expr{AdjustRet: true}, f)},
	}, f)
	f.Stmts = append([]ast.Stmt{touch}, f.Stmts...)
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
		if _, plain := f.Key.(*ast.StringExpr); f.Key != nil && !plain {
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

// assign replaces assignments to computed keys. With several targets all
// operands are evaluated before the first store, as Lua does.
func (rw *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	computed := false
	for _, l := range s.Lhs {
		computed = computed || isComputed(l)
	}
	if !computed {
		return s
	}
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		l := s.Lhs[0].(*ast.AttrGetExpr)
		single(s.Rhs)
		return rw.store(s, l.Object, l.Key, s.Rhs[0])
	}
	block := position(&ast.DoBlockStmt{}, s)
	local := func(exprs ...ast.Expr) []ast.Expr {
		names := make([]string, len(s.Lhs))
		idents := make([]ast.Expr, len(s.Lhs))
		for i := range names {
			names[i] = rw.temp()
			idents[i] = position(&ast.IdentExpr{Value: names[i]}, s)
		}
		block.Stmts = append(block.Stmts, position(&ast.LocalAssignStmt{Names: names, Exprs: exprs}, s))
		return idents
	}
	objects, keys := make([]ast.Expr, len(s.Lhs)), make([]ast.Expr, len(s.Lhs))
	for i, l := range s.Lhs {
		objects[i], keys[i] = position(&ast.NilExpr{}, s), position(&ast.NilExpr{}, s)
		if a, ok := l.(*ast.AttrGetExpr); ok {
			objects[i], keys[i] = a.Object, a.Key
		}
	}
	single(objects)
	single(keys)
	objects, keys = local(objects...), local(keys...)
	values := local(s.Rhs...)
	for i, l := range s.Lhs {
		if _, ok := l.(*ast.AttrGetExpr); ok {
			block.Stmts = append(block.Stmts, rw.store(s, objects[i], keys[i], values[i]))
			continue
		}
		block.Stmts = append(block.Stmts, position(&ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: values[i : i+1]}, s))
	}
	return block
}

func (rw *rewriter) store(at ast.PositionHolder, object, key, value ast.Expr) ast.Stmt {
	args := []ast.Expr{object, key, value}
	single(args)
	c := call(at, opStore, args...)
	c.AdjustRet = false
	return position(&ast.FuncCallStmt{Expr: c}, at)
}

func (rw *rewriter) temp() string {
	rw.temps++
	return fmt.Sprintf("\x00%d", rw.temps)
}

func isComputed(e ast.Expr) bool {
	a, ok := e.(*ast.AttrGetExpr)
	if !ok {
		return false
	}
	_, plain := a.Key.(*ast.StringExpr)
	return !plain
}

// call builds a call of a host function that gives exactly one value.
func call(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	f := position(&ast.IdentExpr{Value: name}, at)
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

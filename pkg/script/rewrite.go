package script

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// rewriter measures a parsed script. It replaces operations whose cost does not show
// in the number of instructions by calls of metered host functions: concatenation,
// tables, functions, varargs, lengths, assignments to computed keys, and operands
// that may be long strings.
type rewriter struct {
	nodes     int
	functions int
	constants map[string]struct{}
	named     int // assignments to members by name
	temps     int
	line      int
	refusal   string
}

// countNode counts a node; false means that the caller must not descend.
func (rw *rewriter) countNode(n ast.PositionHolder, depth int) bool {
	rw.nodes++
	if depth > maxDepth || rw.nodes > maxNodes {
		rw.refuse(n, fmt.Sprintf("the script is nested deeper than %d levels or has more than %d parts", maxDepth, maxNodes))
	}
	return rw.refusal == ""
}

func (rw *rewriter) refuse(at ast.PositionHolder, why string) {
	if rw.refusal == "" {
		rw.refusal, rw.line = why, at.Line()
	}
}

func (rw *rewriter) addConstant(at ast.PositionHolder, text string) {
	rw.constants[text] = struct{}{}
	if len(rw.constants) > maxConstants {
		rw.refuse(at, fmt.Sprintf("the script has more than %d different constants and names", maxConstants))
	}
}

func (rw *rewriter) checkNames(at ast.PositionHolder, names ...string) {
	for _, n := range names {
		if len(n) > maxName {
			rw.refuse(at, fmt.Sprintf("a name has %d bytes; a name may have %d", len(n), maxName))
		}
	}
}

func (rw *rewriter) rewriteBlock(stmts []ast.Stmt, depth int) []ast.Stmt {
	out := make([]ast.Stmt, 0, len(stmts))
	for _, s := range stmts {
		if f, ok := localFunction(s); ok {
			// A function can use its own name, so the local comes first.
			local := s.(*ast.LocalAssignStmt)
			out = append(out, copyPosition(&ast.LocalAssignStmt{Names: local.Names}, s))
			name := copyPosition(&ast.IdentExpr{Value: local.Names[0]}, s)
			s = copyPosition(&ast.AssignStmt{Lhs: []ast.Expr{name}, Rhs: []ast.Expr{f}}, s)
		}
		out = append(out, rw.rewriteStmt(s, depth+1))
	}
	return out
}

func localFunction(s ast.Stmt) (*ast.FunctionExpr, bool) {
	local, ok := s.(*ast.LocalAssignStmt)
	if !ok || len(local.Names) != 1 || len(local.Exprs) != 1 {
		return nil, false
	}
	f, ok := local.Exprs[0].(*ast.FunctionExpr)
	return f, ok
}

func (rw *rewriter) rewriteStmt(s ast.Stmt, depth int) ast.Stmt {
	if !rw.countNode(s, depth) {
		return s
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		rw.rewriteTargets(s.Lhs, depth)
		rw.rewriteExprs(s.Rhs, depth)
		return rw.rewriteAssign(s)
	case *ast.LocalAssignStmt:
		rw.checkNames(s, s.Names...)
		rw.rewriteExprs(s.Exprs, depth)
	case *ast.FuncCallStmt:
		s.Expr = rw.rewriteExpr(s.Expr, depth)
	case *ast.DoBlockStmt:
		s.Stmts = rw.rewriteBlock(s.Stmts, depth)
	case *ast.WhileStmt:
		s.Condition = rw.rewriteExpr(s.Condition, depth)
		s.Stmts = rw.rewriteBlock(s.Stmts, depth)
	case *ast.RepeatStmt:
		s.Condition = rw.rewriteExpr(s.Condition, depth)
		s.Stmts = rw.rewriteBlock(s.Stmts, depth)
	case *ast.IfStmt:
		s.Condition = rw.rewriteExpr(s.Condition, depth)
		s.Then = rw.rewriteBlock(s.Then, depth)
		s.Else = rw.rewriteBlock(s.Else, depth)
	case *ast.NumberForStmt:
		rw.checkNames(s, s.Name)
		s.Init, s.Limit, s.Step = rw.rewriteExpr(s.Init, depth), rw.rewriteExpr(s.Limit, depth), rw.rewriteExpr(s.Step, depth)
		s.Stmts = rw.rewriteBlock(s.Stmts, depth)
	case *ast.GenericForStmt:
		rw.checkNames(s, s.Names...)
		rw.rewriteExprs(s.Exprs, depth)
		s.Stmts = rw.rewriteBlock(s.Stmts, depth)
	case *ast.FuncDefStmt:
		return rw.rewriteDefinition(s, depth)
	case *ast.ReturnStmt:
		rw.rewriteExprs(s.Exprs, depth)
		noTailCall(s)
	case *ast.LabelStmt:
		rw.checkNames(s, s.Name)
	}
	return s
}

// rewriteDefinition turns function a.b.c() and function a.b:c() into assignments.
func (rw *rewriter) rewriteDefinition(s *ast.FuncDefStmt, depth int) ast.Stmt {
	target := s.Name.Func
	if target == nil {
		target = copyPosition(&ast.AttrGetExpr{
			Object: s.Name.Receiver,
			Key:    copyPosition(&ast.StringExpr{Value: s.Name.Method}, s),
		}, s)
		s.Func.ParList.Names = append([]string{"self"}, s.Func.ParList.Names...)
	}
	return rw.rewriteStmt(copyPosition(&ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{s.Func}}, s), depth)
}

// rewriteTargets rewrites the targets of an assignment. It leaves the last key to
// rewriteAssign.
func (rw *rewriter) rewriteTargets(es []ast.Expr, depth int) {
	for i, e := range es {
		a, ok := e.(*ast.AttrGetExpr)
		if !ok {
			es[i] = rw.rewriteExpr(e, depth)
			continue
		}
		if !rw.countNode(a, depth+1) {
			return
		}
		rw.named++
		a.Object, a.Key = rw.rewriteExpr(a.Object, depth+1), rw.rewriteExpr(a.Key, depth+1)
	}
}

// rewriteAssign replaces assignments to computed keys. With several targets all
// operands are evaluated before the first store, as Lua does.
func (rw *rewriter) rewriteAssign(s *ast.AssignStmt) ast.Stmt {
	computed := false
	for _, l := range s.Lhs {
		computed = computed || isComputed(l)
	}
	if !computed {
		return s
	}
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		l := s.Lhs[0].(*ast.AttrGetExpr)
		adjustToOne(s.Rhs)
		return rw.storeCall(s, l.Object, l.Key, s.Rhs[0])
	}
	block := copyPosition(&ast.DoBlockStmt{}, s)
	local := func(exprs ...ast.Expr) []ast.Expr {
		names := make([]string, len(s.Lhs))
		idents := make([]ast.Expr, len(s.Lhs))
		for i := range names {
			names[i] = rw.tempName()
			idents[i] = copyPosition(&ast.IdentExpr{Value: names[i]}, s)
		}
		block.Stmts = append(block.Stmts, copyPosition(&ast.LocalAssignStmt{Names: names, Exprs: exprs}, s))
		return idents
	}
	objects, keys := make([]ast.Expr, len(s.Lhs)), make([]ast.Expr, len(s.Lhs))
	for i, l := range s.Lhs {
		objects[i], keys[i] = copyPosition(&ast.NilExpr{}, s), copyPosition(&ast.NilExpr{}, s)
		if a, ok := l.(*ast.AttrGetExpr); ok {
			objects[i], keys[i] = a.Object, a.Key
		}
	}
	adjustToOne(objects)
	adjustToOne(keys)
	objects, keys = local(objects...), local(keys...)
	values := local(s.Rhs...)
	for i, l := range s.Lhs {
		if _, ok := l.(*ast.AttrGetExpr); ok {
			block.Stmts = append(block.Stmts, rw.storeCall(s, objects[i], keys[i], values[i]))
			continue
		}
		block.Stmts = append(block.Stmts, copyPosition(&ast.AssignStmt{Lhs: []ast.Expr{l}, Rhs: values[i : i+1]}, s))
	}
	return block
}

func (rw *rewriter) storeCall(at ast.PositionHolder, object, key, value ast.Expr) ast.Stmt {
	args := []ast.Expr{object, key, value}
	adjustToOne(args)
	c := hostCall(at, opStore, args...)
	c.AdjustRet = false
	return copyPosition(&ast.FuncCallStmt{Expr: c}, at)
}

func (rw *rewriter) tempName() string {
	rw.temps++
	return fmt.Sprintf("\x00%d", rw.temps)
}

func isComputed(e ast.Expr) bool {
	a, ok := e.(*ast.AttrGetExpr)
	return ok && !isName(a.Key)
}

// isName reports whether a key is short and written in the source.
func isName(key ast.Expr) bool {
	s, ok := key.(*ast.StringExpr)
	return ok && s.Value != "" && len(s.Value) <= maxName
}

"""Statements interpreted in order: names are bound, branches that nobody can decide are in doubt."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from gradcheck_cli.clues.interpreted.expressions import (
    bind,
    defaults_of,
    elements,
    evaluate,
    truth,
)
from gradcheck_cli.clues.interpreted.run import Run, anything, forget
from gradcheck_cli.clues.interpreted.values import (
    UNKNOWN,
    Alias,
    Array,
    Class,
    Definition,
    FunctionNode,
    Instance,
    Scope,
    Transformed,
    Value,
)

# How a block ends that gives no value: after its last statement; perhaps before; never there.
END, MAYBE, NEVER = object(), object(), object()
_MOST_ROUNDS = 4
_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress", "warns"})
_TRAITS = {"staticmethod": "static", "classmethod": "class", "property": "property", "cached_property": "property", "fixture": "fixture", "custom_gradient": "custom_gradient"}  # fmt: skip
# A function under one of these is called with other arguments than it is written with.
_OPAQUE = frozenset(
    {"vmap", "pmap", "vectorize", "grad", "value_and_grad", "contextmanager", "given"}
)


def outcome(body: Sequence[ast.stmt], scope: Scope, run: Run) -> Value:
    """What a function with this body returns."""
    flow = execute(body, scope, run)
    if flow is END:
        return None
    return UNKNOWN if flow in (MAYBE, NEVER) else flow


def execute(body: Sequence[ast.stmt], scope: Scope, run: Run) -> Value:
    """Run through the statements; how they end, or what they return."""
    doubt = False
    for statement in body:
        run.steps += 1
        if run.is_over:
            return MAYBE
        rule = _RULES.get(type(statement))
        flow = END if rule is None else rule(statement, scope, run)
        if flow is MAYBE:
            doubt = True
        elif flow is not END:
            return UNKNOWN if doubt and flow is not NEVER else flow
    return MAYBE if doubt else END


def _expression(node: ast.Expr, scope: Scope, run: Run) -> Value:
    evaluate(node.value, scope, run)
    return END


def _return(node: ast.Return, scope: Scope, run: Run) -> Value:
    return None if node.value is None else evaluate(node.value, scope, run)


def _assign(node: ast.Assign, scope: Scope, run: Run) -> Value:
    value = evaluate(node.value, scope, run)
    for target in node.targets:
        _assigned(target, value, scope, run)
    return END


def _annotated(node: ast.AnnAssign, scope: Scope, run: Run) -> Value:
    if isinstance(node.target, ast.Name):
        fields = scope.names.get("__fields__")
        if isinstance(fields, list):
            fields.append(node.target.id)
    if node.value is not None:
        _assigned(node.target, evaluate(node.value, scope, run), scope, run)
    return END


def _assigned(target: ast.expr, value: Value, scope: Scope, run: Run) -> None:
    if isinstance(target, ast.Name) and scope.module.is_home and scope.parent is None:
        value = _shown(target.id, value)
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
        fits = len(target.elts) == len(value)
        for each, part in zip(
            target.elts, value if fits else [UNKNOWN] * len(target.elts), strict=True
        ):
            _assigned(each, part, scope, run)
    elif isinstance(target, ast.Attribute):
        owner = evaluate(target.value, scope, run)
        if isinstance(owner, Instance):
            owner.attributes[target.attr] = UNKNOWN if run.doubtful else value
        elif isinstance(owner, Array) and target.attr in ("data", "shape"):
            forget(scope, owner, UNKNOWN)
    elif isinstance(target, ast.Subscript):
        _item_assigned(target, value, scope, run)
    else:
        bind(target, value, scope)


def _shown(name: str, value: Value) -> Value:
    """What a name of the home module stands for, if that may be a gradient that the text does not define."""
    if value is UNKNOWN or isinstance(value, (Definition, Transformed)):
        return Alias(name, value)
    return value


def _item_assigned(target: ast.Subscript, value: Value, scope: Scope, run: Run) -> None:
    owner, index = evaluate(target.value, scope, run), evaluate(target.slice, scope, run)
    if isinstance(owner, Array):
        forget(scope, owner, anything(owner))
    elif isinstance(owner, dict) and isinstance(index, (str, int)) and not run.doubtful:
        owner[index] = value
    elif isinstance(owner, (list, dict)):
        forget(scope, owner, UNKNOWN)


def _augmented(node: ast.AugAssign, scope: Scope, run: Run) -> Value:
    combined = ast.BinOp(_loaded(node.target), node.op, node.value)
    value = evaluate(ast.copy_location(combined, node), scope, run)
    if isinstance(node.target, ast.Name):
        old = scope.value(node.target.id)
        if isinstance(old, Array):
            forget(scope, old, anything(old))
        scope.names[node.target.id] = value
    else:
        _assigned(node.target, value, scope, run)
    return END


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _if(node: ast.If, scope: Scope, run: Run) -> Value:
    known = truth(evaluate(node.test, scope, run))
    if known is not None:
        return execute(node.body if known else node.orelse, scope, run)
    before = dict(scope.names)
    run.doubtful += 1
    first = execute(node.body, scope, run)
    one, scope.names = scope.names, before.copy()
    other = execute(node.orelse, scope, run)
    run.doubtful -= 1
    if first is NEVER:  # then the other branch ran
        return other
    if other is NEVER:
        scope.names = one
        return first
    rest = scope.names
    scope.names = {n: v if rest.get(n, _ABSENT) is v else UNKNOWN for n, v in {**rest, **one}.items()}  # fmt: skip
    if first is END and other is END:
        return END
    if other is END and first is not MAYBE:  # the branch that goes on binds the names
        scope.names = rest
    elif first is END and other is not MAYBE:
        scope.names = one
    return MAYBE


_ABSENT = object()


def _for(node: ast.For | ast.AsyncFor, scope: Scope, run: Run) -> Value:
    rows = elements(evaluate(node.iter, scope, run))
    certain = rows is not None and 0 < len(rows) <= _MOST_ROUNDS
    assigned = _assigned_names(node)
    run.doubtful += not certain
    ends = []
    for row in (rows or [UNKNOWN])[:_MOST_ROUNDS]:
        if not certain:
            scope.names |= dict.fromkeys(assigned & set(scope.names), UNKNOWN)
        bind(node.target, row, scope)
        ends.append(execute(node.body, scope, run))
    run.doubtful -= not certain
    if not certain or any(end is not END for end in ends):
        scope.names |= dict.fromkeys(assigned, UNKNOWN)
    execute(node.orelse, scope, run)
    return END if all(end in (END, NEVER) for end in ends) else MAYBE


def _while(node: ast.While, scope: Scope, run: Run) -> Value:
    assigned = _assigned_names(node)
    scope.names |= dict.fromkeys(assigned & set(scope.names), UNKNOWN)
    evaluate(node.test, scope, run)
    run.doubtful += 1
    end = execute(node.body, scope, run)
    run.doubtful -= 1
    scope.names |= dict.fromkeys(assigned, UNKNOWN)
    return END if end in (END, NEVER) else MAYBE


def _assigned_names(node: ast.AST) -> set[str]:
    """The names that something inside binds."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip


def _with(node: ast.With | ast.AsyncWith, scope: Scope, run: Run) -> Value:
    fails = any(_is_expected(item.context_expr) for item in node.items)
    for item in node.items:
        evaluate(item.context_expr, scope, run)
        if item.optional_vars is not None:
            bind(item.optional_vars, UNKNOWN, scope)
    run.muted += fails
    end = execute(node.body, scope, run)
    run.muted -= fails
    if fails:
        scope.names |= dict.fromkeys(_assigned_names(node), UNKNOWN)
    return MAYBE if fails and end is not END else end


def _is_expected(node: ast.expr) -> bool:
    """Is it a context in which what fails is expected to?"""
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _RAISES


def _try(node: ast.Try, scope: Scope, run: Run) -> Value:
    """What stands in a `try` may fail: its calls do not count."""
    run.muted += bool(node.handlers)
    run.doubtful += 1
    ends = [execute(node.body, scope, run)]
    run.muted -= bool(node.handlers)
    names = dict(scope.names)
    for handler in node.handlers:
        ends.append(execute(handler.body, scope, run))
    scope.names = names
    ends.append(execute(node.orelse, scope, run))
    run.doubtful -= 1
    if node.handlers and any(end is not NEVER for end in ends[1:-1]):
        scope.names |= dict.fromkeys(_assigned_names(node), UNKNOWN)
    last = execute(node.finalbody, scope, run)
    if last is not END:
        return last
    return END if all(end in (END, NEVER) for end in ends) else MAYBE


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, run: Run) -> Value:
    words = _words(node)
    for decorator in node.decorator_list:
        evaluate(decorator, scope, run)
    traits = {_TRAITS[w] for w in words & set(_TRAITS)}
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
        traits.add("opaque")
    around = scope.parent if "__fields__" in scope.names and scope.parent else scope
    function = Definition(
        node, scope.inner(node.name), around, defaults_of(node.args, scope, run), frozenset(traits)
    )
    wrapped = words & _OPAQUE
    scope.names[node.name] = Alias(function.qualname, UNKNOWN) if wrapped else function
    return END


def _words(node: FunctionNode | ast.ClassDef) -> set[str]:
    """All names in the decorators."""
    inside = [n for d in getattr(node, "decorator_list", []) for n in ast.walk(d)]
    names = {n.id for n in inside if isinstance(n, ast.Name)}
    return names | {n.attr for n in inside if isinstance(n, ast.Attribute)}


def _class(node: ast.ClassDef, scope: Scope, run: Run) -> Value:
    inner = Scope(scope.module, f"{scope.inner(node.name)}.", scope, {"__fields__": []})
    bases = [evaluate(base, scope, run) for base in node.bases]
    execute(node.body, inner, run)
    scope.names[node.name] = Class(scope.inner(node.name), inner.names, bases)
    return END


def _import(node: ast.Import, scope: Scope, run: Run) -> Value:
    for alias in node.names:
        if alias.asname:
            scope.names[alias.asname] = run.imported(alias.name, 0, None)
        else:
            root = alias.name.partition(".")[0]
            scope.names[root] = run.imported(root, 0, None)
    return END


def _import_from(node: ast.ImportFrom, scope: Scope, run: Run) -> Value:
    for alias in node.names:
        value = run.imported(node.module or "", node.level, alias.name)
        scope.names[alias.asname or alias.name] = value
    return END


def _elsewhere(node: ast.Global | ast.Nonlocal, scope: Scope, run: Run) -> Value:
    """A name of another scope that is bound here: nobody can say when."""
    where: Scope | None = scope
    while where is not None:
        where.names |= {n: UNKNOWN for n in node.names if n in where.names}
        where = where.parent
    return END


def _assert(node: ast.Assert, scope: Scope, run: Run) -> Value:
    evaluate(node.test, scope, run)
    return END


def _deleted(node: ast.Delete, scope: Scope, run: Run) -> Value:
    for target in node.targets:
        bind(target, UNKNOWN, scope)
    return END


def _never(node: ast.stmt, scope: Scope, run: Run) -> Value:
    return NEVER


_Rule = Callable[..., Value]
_RULES: Mapping[type[ast.stmt], _Rule] = {
    ast.Expr: _expression, ast.Return: _return, ast.Assign: _assign, ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented, ast.If: _if, ast.For: _for, ast.AsyncFor: _for, ast.While: _while,
    ast.With: _with, ast.AsyncWith: _with, ast.Try: _try, ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function, ast.ClassDef: _class, ast.Import: _import,
    ast.ImportFrom: _import_from, ast.Global: _elsewhere, ast.Nonlocal: _elsewhere,
    ast.Assert: _assert, ast.Delete: _deleted, ast.Raise: _never, ast.Continue: _never,
    ast.Break: _never,
}  # fmt: skip

"""A rule's text: the grad functions in it, what they return and can name, and where numbers stand in them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence

Function = ast.FunctionDef | ast.Lambda


def names_in(function: Function, part: Function) -> list[str]:
    """What a grad function can name: its parameters and variables, then those of what it stands in."""
    return list(dict.fromkeys([*_own_names(part), *_names_around(function, part)]))


def places_in(part: Function) -> list[ast.expr]:
    """Where numbers stand in what a function computes."""
    kinds = ast.BinOp | ast.UnaryOp | ast.Call | ast.Name | ast.Subscript | ast.Attribute
    nodes = expressions_in(part)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return [
        node
        for node in nodes
        if (isinstance(node, kinds) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load))
        or (isinstance(node, ast.Constant) and isinstance(node.value, float))
        if id(node) not in called and id(node) not in owners
    ]


def rules_in(function: Function) -> list[Function]:
    """The grad functions that a function, or one inside it, returns beside its value; else the function itself."""
    inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef) and n is not function]
    for each in (function, *inner):
        rules = _beside_values(each, {n.name: n for n in inner})
        if rules:
            return rules
    return [function]


def _beside_values(function: Function, inner: Mapping[str, ast.FunctionDef]) -> list[Function]:
    """The second of two things that the function returns, where it is a function that is written in it."""
    rules: list[Function] = []
    for returned in returned_by(function, apart=False):
        if isinstance(returned, ast.Tuple) and len(returned.elts) == 2:
            last = returned.elts[1]
            if isinstance(last, ast.Lambda):
                rules.append(last)
            elif isinstance(last, ast.Name) and last.id in inner:
                rules.append(inner[last.id])
    return rules


def returned_by(function: Function, *, apart: bool = True) -> list[ast.expr]:
    """Expressions that the function returns; the parts of a tuple one by one."""
    if isinstance(function, ast.Lambda):
        whole = [function.body]
    else:
        whole = [n.value for n in own_nodes(function) if isinstance(n, ast.Return) and n.value]
    if not apart:
        return whole
    return [
        part for value in whole for part in (value.elts if isinstance(value, ast.Tuple) else [value])
    ]  # fmt: skip


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Nodes of a function without those of functions inside it."""
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            todo[:0] = ast.iter_child_nodes(node)


def expressions_in(function: Function) -> list[ast.expr]:
    """All expressions but those that say how often something runs."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    turns = [part for node in nodes for part in _turns(node)]
    left_out = {id(inner) for part in turns for inner in ast.walk(part)}
    return [n for n in nodes if isinstance(n, ast.expr) and id(n) not in left_out]


def assigned_in(function: Function) -> list[ast.expr]:
    """What the function gives names, and no mere name or part of one."""
    values = (n.value for n in own_nodes(function) if isinstance(n, ast.Assign))
    return [v for v in values if isinstance(v, ast.BinOp | ast.Call)]


def overwritten_in(function: Function) -> dict[ast.expr, ast.expr]:
    """What a loop gives a name, or a place, that had a value before the loop and is not read there; with that name or place."""
    if isinstance(function, ast.Lambda):
        return {}
    found: dict[ast.expr, ast.expr] = {}
    for loop in (n for n in own_nodes(function) if isinstance(n, ast.For | ast.While)):
        before = {
            n.id
            for n in own_nodes(function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < loop.lineno
        }
        for node in ast.walk(loop):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if not isinstance(target, ast.Name | ast.Subscript):
                    continue
                name = target.value if isinstance(target, ast.Subscript) else target
                read = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                if isinstance(name, ast.Name) and name.id in before - read:
                    found[node.value] = _to_be_read(target)
    return found


def stores_in(function: Function) -> list[ast.stmt]:
    """Where the function stores into places of an array, or adds to them."""
    nodes = [] if isinstance(function, ast.Lambda) else list(own_nodes(function))
    stored = (n for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1)
    added = (n for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add))
    every: list[ast.stmt] = [n for n in stored if isinstance(n.targets[0], ast.Subscript)]
    return every + [n for n in added if isinstance(n.target, ast.Subscript)]


def _to_be_read(target: ast.Name | ast.Subscript) -> ast.expr:
    """A name, or a place, as it stands where it is read."""
    read = copy.copy(target)
    read.ctx = ast.Load()
    return read


def _turns(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.While():
            return [node.test]
        case ast.For() | ast.comprehension():
            return [node.iter]
    return []


def _own_names(function: Function) -> list[str]:
    """Parameters and what the function assigns, in the order of its text, but for what it only takes apart."""
    parameters = [a.arg for a in function.args.args]
    nodes = list(ast.walk(function))
    stored = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    assigned = [n.id for n in sorted(stored, key=lambda n: (n.lineno, n.col_offset))]
    opened = {
        name.id
        for n in nodes
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple)
        if not isinstance(n.value, ast.Call)  # what a function takes is not taken apart
        for name in ast.walk(n.value)
        if isinstance(name, ast.Name)
    }
    return [name for name in dict.fromkeys([*parameters, *assigned]) if name not in opened]


def _names_around(function: Function, part: Function) -> list[str]:
    """What a grad function can name of the function that it stands in: its parameters, and what it has assigned."""
    if part is function:
        return []
    inner = {n.name for n in ast.walk(function) if isinstance(n, ast.FunctionDef)}
    own = [a.arg for a in function.args.args]
    above = [
        n for n in own_nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return [name for name in (*own, *(n.id for n in above)) if name not in inner]


def library_of(function: Function, names: Sequence[str]) -> str | None:
    """What the function calls the module of its operations: `jnp` of `jnp.where(...)`."""
    calls = (n.func for n in ast.walk(function) if isinstance(n, ast.Call))
    owners = (_whole(f.value) for f in calls if isinstance(f, ast.Attribute))
    found = [
        o.id for o in owners if isinstance(o, ast.Name) and o.id not in (*names, "ctx", "self")
    ]
    return max(found, key=found.count, default=None)


def _whole(owner: ast.expr) -> ast.expr:
    """`tf` of `tf.math`: whose parts are called by the whole's name, too."""
    root = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    return root if isinstance(root, ast.Name) and root.id in ("tf", "torch") else owner

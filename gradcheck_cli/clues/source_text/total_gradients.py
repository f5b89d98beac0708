"""Parameters that are single numbers by what the rule returns for them: `-(dz * z).sum() / noise`, a total divided by `noise` itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradcheck_cli.clues.source_text.tree import LIBRARIES, Text, last_word

_TOTALS = frozenset({"sum", "mean", "reduce_sum", "reduce_mean"})


def divided_totals(text: Text, names: Sequence[str]) -> Iterator[str]:
    """The parameters of which each `return` of a rule's text, one entry for each, gives such a gradient."""
    nodes = [node for statement in text.statements for node in ast.walk(statement)]
    assigned = _assigned(nodes)
    rows = [n.value.elts for n in nodes if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)]  # fmt: skip
    if not rows or any(len(row) != len(names) for row in rows):
        return
    for name, *gradients in zip(names, *rows, strict=True):
        whole = [assigned.get(g.id, g) if isinstance(g, ast.Name) else g for g in gradients]
        if all(_is_divided_total(each, name) for each in whole):
            yield name


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """What is assigned to each local name that is assigned once."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                found.setdefault(name, []).extend((value, value))
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _is_divided_total(node: ast.expr, name: str) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_divided_total(inner, name)
        case ast.BinOp(left=total, op=ast.Div(), right=by):
            factors = list(_factors(total))
            alone = all(_is_total(f) or isinstance(f, ast.Constant) for f in factors)
            return _is_itself(by, name) and alone and any(map(_is_total, factors))
    return False


def _is_itself(node: ast.expr, name: str) -> bool:
    """Is it the parameter, or a power of it?"""
    base = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else node
    return isinstance(base, ast.Name) and base.id == name


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _factors(inner)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield node


def _is_total(node: ast.expr) -> bool:
    """A sum or a mean over all axes: `x.sum()`, `jnp.sum(x)`."""
    if not isinstance(node, ast.Call) or node.keywords or last_word(node.func) not in _TOTALS:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_function = owner is None or (isinstance(owner, ast.Name) and owner.id in LIBRARIES)
    return len(node.args) == (1 if is_function else 0)

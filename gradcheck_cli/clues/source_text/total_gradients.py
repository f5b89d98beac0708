"""Parameters that are single numbers by what the rule returns for them: `-(dz * z).sum() / noise`, a total by `noise` itself.

Each entry of what has axes would get what all of them are worth together: so it is where the function reduces the
parameter itself, as the square of a norm, and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from gradcheck_cli.clues.source_text.tree import LIBRARIES, Text, last_word

_TOTALS = frozenset({"sum", "mean", "reduce_sum", "reduce_mean"})
_ENTRY_BY_ENTRY = frozenset({"exp", "log", "sqrt", "square", "reciprocal", "abs", "tanh", "sigmoid", "softplus", "pow", "power"})  # fmt: skip
_REDUCES = _TOTALS | {"norm", "vector_norm", "prod", "reduce_prod", "logsumexp", "reduce_logsumexp", "dot", "vdot", "inner", "matmul", "einsum", "softmax", "var", "std"}  # fmt: skip
_MOST_STEPS = 4  # from a local name to what it was made of


def total_gradients(text: Text, names: Sequence[str], around: Text | None) -> Iterator[str]:
    """The parameters of which each `return` of a rule's text, one entry for each, gives such a gradient.

    `around` is the function that a rule may be defined in, and take what it has assigned from.
    """
    function = [] if around is None else _nodes(around)
    outer = _assigned(function)
    nodes = _nodes(text)
    assigned = {**outer, **_assigned(nodes)}
    rows = [n.value.elts for n in nodes if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)]  # fmt: skip
    if not rows or any(len(row) != len(names) for row in rows):
        return
    for name, *gradients in zip(names, *rows, strict=True):
        whole = [assigned.get(g.id, g) if isinstance(g, ast.Name) else g for g in gradients]
        total = all(_is_total_by(each, name, assigned) for each in whole)
        if total and not any(_reduces(node, name, outer) for node in function):
            yield name


def _nodes(text: Text) -> list[ast.AST]:
    return [node for statement in text.statements for node in ast.walk(statement)]


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


def _is_total_by(node: ast.expr, name: str, assigned: Mapping[str, ast.expr]) -> bool:
    """Is it a total, by something that is made of the parameter alone, and by constants?"""
    above, below = _factors(node)
    rest = [f for f in (*above, *below) if not (_is_total(f) or _is_number(f))]
    alone = all(_is_of(f, name, assigned, _MOST_STEPS) for f in rest)
    return bool(rest) and alone and any(map(_is_total, above))


def _is_of(node: ast.expr, name: str, assigned: Mapping[str, ast.expr], steps: int) -> bool:
    """Is it made of the parameter, entry by entry, and of constants?"""
    match node:
        case ast.Name(id=own) if own == name:
            return True
        case ast.Name(id=local) if steps and local in assigned:
            return _is_of(assigned[local], name, assigned, steps - 1)
        case ast.UnaryOp(operand=inner):
            return _is_of(inner, name, assigned, steps)
        case ast.BinOp(left=left, right=right):
            sides = [s for s in (left, right) if not _is_number(s)]
            return bool(sides) and all(_is_of(s, name, assigned, steps) for s in sides)
        case ast.Call(args=[inner], keywords=[]) if last_word(node.func) in _ENTRY_BY_ENTRY:
            return _is_of(inner, name, assigned, steps)
    return False


def _reduces(node: ast.AST, name: str, assigned: Mapping[str, ast.expr]) -> bool:
    """Does it add up, or multiply with others, what is made of the parameter alone?"""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Call) and last_word(node.func) in _REDUCES:
        method = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        sides = [*node.args, *method]
    else:
        return False
    return any(_is_of(side, name, assigned, _MOST_STEPS) for side in sides)


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant)


def _factors(node: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """The factors of a product, and those that it is divided by."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _factors(inner)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            above, below = _factors(left)
            other = _factors(right)
            ours, theirs = other if isinstance(op, ast.Mult) else reversed(other)
            return [*above, *ours], [*below, *theirs]
    return [node], []


def _is_total(node: ast.expr) -> bool:
    """A sum or a mean over all axes: `x.sum()`, `jnp.sum(x)`."""
    if not isinstance(node, ast.Call) or node.keywords or last_word(node.func) not in _TOTALS:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_function = owner is None or (isinstance(owner, ast.Name) and owner.id in LIBRARIES)
    return len(node.args) == (1 if is_function else 0)

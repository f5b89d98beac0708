"""What a loop adds up or multiplies up: `total += f(x)` from 0 on is the sum of `f(x)`; `a = (a @ T) * e` is a product."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.nodes import walk
from gradcheck_cli.lint.terms import Term

_REDUCED = {ast.Add: ("sum", 0.0), ast.Mult: ("prod", 1.0)}


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A name that one statement of a loop changes, and what it takes in each time."""

    name: str
    reduction: str
    neutral: float
    taken: ast.expr

    def starts_from(self, start: Term | None) -> bool:
        """Is it what changes nothing?"""
        return start is not None and start.number == self.neutral

    def of(self, each: Term) -> Term:
        """What the name holds after the loop, by what is taken in each time."""
        return terms.call(self.reduction, terms.call("each", each))


def accumulations(body: Sequence[ast.stmt]) -> Iterator[Accumulation]:
    """Names that nothing else in the loop binds."""
    nodes = [node for statement in body for node in walk(statement)]
    bound = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reduced = _REDUCED.get(type(node.op))
            if reduced is not None and bound[node.target.id] == 1:
                yield Accumulation(node.target.id, *reduced, node.value)


def carried_products(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that a loop multiplies by matrices, and by nothing but factors: each turn makes them smaller, or larger."""
    nodes = [node for statement in body for node in walk(statement)]
    bound = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    products = [(name, node) for node in nodes if (name := _multiplied(node))]
    grown = Counter(name for name, _ in products)
    matrices = {name for name, node in products if _has_matrices(node)}
    yield from (name for name in bound if name in matrices and grown[name] == bound[name])


def _multiplied(node: ast.AST) -> str:
    """The name that this statement gives itself times something."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            named = sum(_is(part, name) for part in walk(value))
            return name if named == 1 and any(_is(part, name) for part in _factors(value)) else ""
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Mult() | ast.MatMult()):
            return name
    return ""


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """What stands in a product of numbers or matrices, however it is written."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult() | ast.MatMult(), right=right):
            yield node
            yield from (*_factors(left), *_factors(right))
        case _:
            yield node


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _has_matrices(node: ast.AST) -> bool:
    """Is a product of matrices among the factors?"""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.MatMult)
    factors = _factors(node.value) if isinstance(node, ast.Assign) else ()
    return any(isinstance(getattr(part, "op", None), ast.MatMult) for part in factors)

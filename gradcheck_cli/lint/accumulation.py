"""What a loop adds up or multiplies up: `total += f(x)` from 0 on is the sum of `f(x)`."""

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

"""Small edits of the text of a rule, the likeliest first: which `changes` are tried in which of its places."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.judge.repair import changes
from gradcheck_cli.judge.repair.divisors import Divisor, over_roots, over_sizes
from gradcheck_cli.judge.source.rule_text import (
    Function,
    assigned_in,
    expressions_in,
    library_of,
    names_in,
    overwritten_in,
    returned_by,
    rules_in,
    stores_in,
)

# Expressions, names that may stand there, and what to write instead of one of the expressions.
_Change = Callable[[Any, Sequence[str]], Iterator[ast.expr]]
_Sweep = tuple[Sequence[ast.expr | ast.stmt], Sequence[str], _Change]


@dataclass(frozen=True, slots=True)
class Edit:
    """One expression in the place of another, or of a statement; `tree` is the whole function with it.

    What is not on the way from the function to the expression is shared with other edits.
    """

    before: ast.expr | ast.stmt
    after: ast.expr
    tree: Function

    @property
    def line(self) -> int:
        return self.before.lineno

    @property
    def old(self) -> str:
        return ast.unparse(self.before)

    @property
    def new(self) -> str:
        return ast.unparse(self.after)


def instead(function: Function, place: ast.expr | ast.stmt, new: ast.expr) -> Function:
    """The function with another expression in a place."""
    return _replaced(function, _parents(function), place, _as(place, new))


def edits(function: Function, missing: Divisor | None = None) -> Iterator[Edit]:
    """Changes of what the gradients are made of; where a divisor is known to be missing, that first."""
    return _swept(function, lambda part: _likely(function, part, missing))


def additions(function: Function, library: str | None = None) -> Iterator[Edit]:
    """Changes of whole gradients, then with something more in it; of the library that the module has, if it calls none itself."""
    return _swept(function, lambda part: _further(function, part, library))


def shaped(function: Function, library: str | None = None) -> Iterator[Edit]:
    """Changes of shapes: gradients summed over what their arguments were spread over, in another order, turned, with an axis kept."""
    return _swept(function, lambda part: _of_shapes(function, part, library))


def _swept(function: Function, sweeps: Callable[[Function], Sequence[_Sweep]]) -> Iterator[Edit]:
    parents = _parents(function)
    for part in rules_in(function):
        for nodes, variables, change in sweeps(part):
            for node in nodes:
                for new in change(node, variables):
                    yield Edit(node, new, _replaced(function, parents, node, _as(node, new)))


def _as(place: ast.expr | ast.stmt, new: ast.expr) -> ast.AST:
    return ast.Expr(new) if isinstance(place, ast.stmt) else new


def _likely(function: Function, part: Function, missing: Divisor | None) -> Sequence[_Sweep]:
    names, inside = names_in(function, part), expressions_in(part)
    library = library_of(part, names)
    changed: _Sweep = (inside, names, changes.changed)
    options: _Sweep = (inside, names, functools.partial(changes.with_options, library=library))
    lost = overwritten_in(part)
    added: _Sweep = (list(lost), names, lambda node, _: changes.added_to(lost[node], node))
    stored: _Sweep = (stores_in(part), names, changes.accumulated)
    if missing is None:
        return added, stored, changed, options
    divisors = _sizes(part, names) if missing is Divisor.SIZE else _roots(part, names)
    less: _Sweep = (inside, names, changes.without_a_number)
    named: _Sweep = (returned_by(part), names, changes.by_a_name)
    return less, named, divisors, stored, changed, options


def _of_shapes(function: Function, part: Function, library: str | None) -> Sequence[_Sweep]:
    names, inside, whole = names_in(function, part), expressions_in(part), returned_by(part)
    library = library_of(part, names) or library
    sums, options = (
        functools.partial(way, library=library) for way in (changes.summed, changes.with_options)
    )
    every = returned_by(part, apart=False)
    orders: Sequence[_Sweep] = (
        (every, names, changes.reordered),
        (whole, names, changes.transposed),
    )
    return (whole, names, sums), *orders, (inside, names, options)


def _further(function: Function, part: Function, library: str | None) -> Sequence[_Sweep]:
    names, inside, whole = names_in(function, part), expressions_in(part), returned_by(part)
    library = library_of(part, names) or library
    signs, sums, roots = (
        functools.partial(change, library=library)
        for change in (changes.with_signs, changes.summed, changes.to_powers)
    )
    return (
        (inside, names, changes.more_in_a_sum),
        (whole, [a.arg for a in part.args.args], changes.of_the_whole), (whole, names, sums),
        _sizes(part, names), (inside, names, roots), (inside, names, changes.with_more),
        (whole, names, changes.doubled), _roots(part, names), (inside, names, signs),
    )  # fmt: skip


def _sizes(part: Function, names: Sequence[str]) -> _Sweep:
    divided = functools.partial(over_sizes, library=library_of(part, names))
    return returned_by(part), _arrays(part, names), divided


def _roots(part: Function, names: Sequence[str]) -> _Sweep:
    divided = functools.partial(over_roots, library=library_of(part, names))
    return assigned_in(part), _arrays(part, names), divided


def _arrays(part: Function, names: Sequence[str]) -> list[str]:
    """The names, the cotangent last."""
    parameters = [a.arg for a in part.args.args]
    return sorted(names, key=lambda name: name in parameters)


def _parents(function: Function) -> dict[ast.AST, ast.AST]:
    """The node that each node of the function stands in."""
    return {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}


def _replaced(
    function: Function, parents: Mapping[ast.AST, ast.AST], node: ast.AST, new: ast.AST
) -> Function:
    """The function with another node in a place; only what the place stands in is copied."""
    while node is not function:
        parent = parents[node]
        copied = copy.copy(parent)
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(copied, name, new)
            elif isinstance(value, list) and any(item is node for item in value):
                setattr(copied, name, [new if item is node else item for item in value])
        node, new = parent, copied
    assert isinstance(new, ast.FunctionDef | ast.Lambda)
    return new

"""What an intent is: a deviation that explains the failures of some rules, if the rule keeps its law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import arb

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_PLAIN: Any = {"float_kind": lambda number: f"{number:.7g}"}


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why nobody can say whether the rule is what is declared."""

    text: str


class Intent(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def answers(self) -> frozenset[RuleName]: ...  # rules whose failures it explains
    def broken(self, m: Measurements, argument: str | None) -> str | Doubt | None:
        """The reason why the rule is not what is declared; None if it is."""
        ...

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool: ...
    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        """The texts that might stand in its brackets, if the failure is intended; none: it is not offered."""
        ...


def formula(m: Measurements) -> Array:
    """The rule's gradients over the reals, a row a probe."""
    assert m.rule is not None
    return columns(m.rule.gradients, m.count)


def formula_cells(m: Measurements) -> Iterator[tuple[int, int]]:
    """Rows within reach, with the components at which the formula has a value."""
    assert m.rule is not None
    states = columns(m.rule.gradient_states, m.count)
    for row in np.flatnonzero(~m.beyond):
        for k in np.flatnonzero((states[row] == REGULAR) | (states[row] == LIMIT)):
            yield int(row), int(k)


def common_cells(m: Measurements) -> Iterator[tuple[int, int]]:
    """Rows and components at which formula and truth both have a value."""
    states = m.reference.states(GRADIENTS)
    for row, k in formula_cells(m):
        if states[row, k] in (REGULAR, LIMIT):
            yield row, k


def argument_of(m: Measurements, component: int) -> str:
    """The differentiated argument that a component belongs to."""
    number, _ = component_name(m, GRADIENTS, component)
    return m.subject.leaves[number].path


def gets_nothing(m: Measurements, name: str) -> bool:
    """Is the rule's gradient zero for the argument wherever it has a value?"""
    gradients = formula(m)
    return all(gradients[r, k] == 0 for r, k in formula_cells(m) if argument_of(m, k) == name)


def shown(ball: arb) -> str:
    return str(ball.str(6, radius=False))


def at(m: Measurements, row: int) -> str:
    """The row's point, if it is small."""
    leaves = zip(m.subject.leaves, m.points, strict=True)
    return ", ".join(f"{leaf.path} = {_in_a_line(np.asarray(p[row]))}" for leaf, p in leaves)


def _in_a_line(numbers: Array) -> str:
    text = np.array2string(numbers, separator=", ", threshold=8, formatter=_PLAIN)
    return " ".join(text.split())

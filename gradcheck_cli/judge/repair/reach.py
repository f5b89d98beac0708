"""Which places in a rule's text can be at fault: those that reach what is wrong.

A run with 0 in a place (or with other numbers) shows which gradients rest on it. No change there mends one that does not.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from gradcheck_cli.judge.repair.edits import Edit, instead
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.source.rewritten import rewritten, tree_of
from gradcheck_cli.judge.source.rule_text import Function

Array = np.ndarray[Any, Any]

# Times 0; where it is 0 already, 1 more; and beyond what it may be compared with, on both sides.
_PROBES = ((ast.Mult(), 0), (ast.Add(), 1), (ast.Mult(), 10**9), (ast.Mult(), -(10**9)))
_LOOKS = 2  # rows of each signature


@dataclass(slots=True)
class Reach:
    """What rests on each place, at a row that shows all that is wrong."""

    trial: Trial
    row: int
    here: Sequence[Array]
    wrong: Sequence[bool]
    _known: dict[ast.expr | ast.stmt, bool] = field(default_factory=dict)

    def allows(self, function: FunctionType, edit: Edit) -> bool:
        """Can a change at this place be what makes the rule right?"""
        place = edit.before
        if place not in self._known:
            self._known[place] = self._may_be_at_fault(function, place)
        return self._known[place]

    def _may_be_at_fault(self, function: FunctionType, place: ast.expr | ast.stmt) -> bool:
        tree = tree_of(function)
        if isinstance(place, ast.stmt) or (tree is not None and _stands_alone(tree, place)):
            return True  # what it does is done in place
        moved = None if tree is None else self._rests_on(function, tree, place)
        if moved is None:
            return True  # it is no number, or what is made of it has to be one: that says nothing
        return any(m and w for m, w in zip(moved, self.wrong, strict=True))

    def _rests_on(
        self, function: FunctionType, tree: Function, place: ast.expr
    ) -> list[bool] | None:
        """Which gradients change with the place; none where the rule does not run with another number there."""
        found: list[bool] = []
        for operator, number in _PROBES:
            new = ast.BinOp(place, operator, ast.Constant(number))
            with rewritten(function, instead(tree, place, new)) as runs:
                there = self.trial.gradients(self.row) if runs else None
            if there is None or [g.shape for g in there] != [g.shape for g in self.here]:
                return None
            pairs = zip(self.here, there, strict=True)
            found = [not np.array_equal(a, b, equal_nan=True) for a, b in pairs]
            if any(found):
                break
        return found


def reach(trials: Sequence[Trial], screens: Sequence[Sequence[int]]) -> Reach | None:
    """What is known by the gradients at the rows that are looked at; nothing unless one row shows all that is wrong."""
    looks = [
        _Look(trial, row)
        for trial, rows in zip(trials, screens, strict=True)
        for row in rows[:_LOOKS]
    ]
    wrong = [look.apart for look in looks]
    if not wrong or any(len(each) != len(wrong[0]) for each in wrong) or not wrong[0]:
        return None
    anywhere = np.any(wrong, axis=0).tolist()
    best = next((look for look in looks if look.apart == anywhere), None)
    if best is None or not any(anywhere):
        return None
    return Reach(best.trial, best.row, best.gradients, anywhere)


def _stands_alone(tree: Function, place: ast.expr) -> bool:
    """Is it a statement of its own: `grad.index_copy_(0, ids, rows)`?"""
    return any(isinstance(node, ast.Expr) and node.value is place for node in ast.walk(tree))


class _Look:
    """The rule's gradients at a row, and which of them are not about the truth; nothing where it raises."""

    def __init__(self, trial: Trial, row: int) -> None:
        self.trial, self.row = trial, row
        self.gradients: Sequence[Array] = trial.gradients(row) or []
        self.apart = trial.apart(row, self.gradients) or []

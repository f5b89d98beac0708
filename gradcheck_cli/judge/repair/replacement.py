"""What to write instead: a stable library function that equals the primal over the reals.

Verified twice before it is shown: equal balls at every tried point, and good
floats (value or gradient) at the failing row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import LibraryFunction

Array = np.ndarray[Any, Any]

_POINTS = 24
_FEWEST = 6  # components that must agree before two functions count as one
_GOAL = 80


@dataclass(frozen=True, slots=True)
class _Equal:
    """A stable function that is this primal, with its floats (the spelled derivative's too) at all rows."""

    function: LibraryFunction
    value: Array
    gradient: Array | None


def find_replacement(m: Measurements, row: int, what: str) -> LibraryFunction | None:
    """What to write for the value or the gradient: the first function whose text for it holds and is good here."""
    for equal in _equals(m):
        floats = equal.value if what == VALUES else equal.gradient
        if floats is not None and _is_good(m, floats[row], row, what):
            return equal.function
    return None


@derived
def _equals(m: Measurements) -> list[_Equal]:
    """Stable functions that are this primal over the reals."""
    equals = []
    for function in m.subject.library_functions():
        subject = function.subject
        if list(subject.outputs) != list(m.subject.outputs):
            continue
        program = subject.traces().primal
        if program is not None and _same(m, program, len(m.cotangents), VALUES):
            floats = subject.run(m.points, m.cotangents, (m.mode,))[m.mode]
            value, gradient = columns(floats.value, m.count), _gradient(m, function)
            equals.append(_Equal(function, value, gradient))
    return equals


def _gradient(m: Measurements, function: LibraryFunction) -> Array | None:
    """Floats of the spelled derivative, if it is the primal's over the reals."""
    spelled = function.spelled()
    if spelled is None or not _same(m, spelled.program, None, GRADIENTS):
        return None
    return columns(spelled.run(m.points, m.cotangents), m.count)


def _same(m: Measurements, program: Program, outputs: int | None, what: str) -> bool:
    """Equal balls at every tried row where the truth is regular."""
    rows = m.base_rows[:_POINTS]
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    try:
        enclosed = enclose(program, args, goal=_GOAL, most_bits=512)
    except NoRealMeaning:
        return False
    theirs = columns(enclosed.outs[:outputs], len(rows))
    ours, states = m.reference.balls(what)[rows], m.reference.states(what)[rows]
    regular = states == REGULAR
    if theirs.shape != ours.shape or regular.sum() < _FEWEST:
        return False
    return all(a.overlaps(b) for a, b in zip(ours[regular], theirs[regular], strict=True))


def _is_good(m: Measurements, floats: Array, row: int, what: str) -> bool:
    """Do the library function's own floats carry no fault at the row?"""
    truth = m.reference.middle(what)[row]
    return bool((np.abs(floats - truth) <= 2**6 * m.fmt.eps * np.abs(truth) + m.fmt.tiny).all())

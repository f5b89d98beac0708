"""Faults that only several arguments bring about together: a strain of 100 beside an exponent of 100.

Either one moved to where the function was met before, and the fault is gone. Where the function itself has no
float there, either, nobody who writes it has that point in mind (SEMANTICS A4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import MODERATE
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.moved import moved_to

Array = np.ndarray[Any, Any]
Holds = Callable[[Measurements], Array]

_INSIDE = 0.375  # of most domains that have ends
_DONORS = 3  # rows from which an argument takes its other values


def brought_about_by(
    m: Measurements, rows: Sequence[int], recurs: Holds, is_healthy: Holds
) -> list[list[str]]:
    """For each row, the arguments each of which heals the fault when it alone is moved."""
    donors, arguments = _donors(m), m.arguments
    places = [(row, each, donor) for row in rows for each in arguments.values() for donor in donors]
    if len(arguments) < 2 or not places:
        return [[] for _ in rows]
    there = _measured(m, places)
    shape = (len(rows), len(arguments), len(donors))
    ill = np.any(recurs(there).reshape(shape), axis=2)
    well = np.any(is_healthy(there).reshape(shape), axis=2)
    heals = np.asarray(well & ~ill)
    names = list(arguments)
    return [[names[i] for i in np.flatnonzero(row)] for row in heals]


def at_the_ends_together(m: Measurements, row: int, recurs: Holds, is_healthy: Holds) -> list[str]:
    """The arguments with numbers at the ends of where they live, as shares that are 0 or 1, where only together these do it.

    Not one of them does so alone among ordinary numbers, and not with the same number inside in their place.
    """
    donors, arguments = _donors(m), m.arguments
    at_ends = {n: own for n, own in arguments.items() if any(_ends(m, i, row).any() for i in own)}
    leaves = [i for own in at_ends.values() for i in own]
    donors = [d for d in donors if not any(_ends(m, i, d).any() for i in leaves)]
    if len(at_ends) < 2 or not donors:
        return []
    inside = [p[[row]].copy() for p in m.points]
    for i in leaves:
        inside[i][0, ...][_ends(m, i, row)] = _INSIDE
    alone = _measured(m, [(donor, each, row) for each in at_ends.values() for donor in donors])
    harmless = is_healthy(alone).all() and not recurs(alone).any()
    return list(at_ends) if harmless and is_healthy(moved_to(m, [row], inside)).all() else []


def _ends(m: Measurements, leaf: int, row: int) -> Array:
    """Which numbers of an argument are an end of its domain."""
    domain, numbers = m.subject.leaves[leaf].domain, m.points[leaf][row]
    bounds = () if domain is None else (domain.bounds.low, domain.bounds.high)
    return np.isin(numbers, [end for end in bounds if np.isfinite(end)])


def _donors(m: Measurements) -> list[int]:
    """Rows of moderate numbers, none of them zero, from the first of these to the last."""
    rows = m.base_rows
    sizes = [np.abs(p[rows]).reshape(len(rows), -1) for p in m.points]
    plain = [((size > 0) & (size <= MODERATE.value)).all(axis=1) for size in sizes]
    rows = rows[np.all(plain, axis=0)] if plain else rows[:0]
    spread = np.unique(np.linspace(0, len(rows) - 1, _DONORS).astype(int))
    return rows[spread].tolist() if len(rows) else []


def _measured(m: Measurements, places: Sequence[tuple[int, Sequence[int], int]]) -> Measurements:
    """Each row with one argument as a donor has it."""
    where = [row for row, _, _ in places]
    points = [p[where].copy() for p in m.points]
    for k, (_, argument, donor) in enumerate(places):
        for i in argument:
            points[i][k] = m.points[i][donor]
    return moved_to(m, where, points)

"""Rows at which no model is: what breaks only there is a note (SEMANTICS A5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import EVERYDAY, TINY_AT_ONCE
from gradcheck_cli.inputs.quantities import quantity_of
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]


@derived
def tiny_at_once(m: Measurements) -> Array:
    """Rows at which several arguments hold numbers so small that no model meets them together."""
    sizes = [np.abs(p).reshape(len(p), -1) for p in m.points]
    small = [((size > 0) & (size < TINY_AT_ONCE.value)).any(axis=1) for size in sizes]
    return np.asarray(np.sum(small, axis=0) > 1)


def unmet(m: Measurements) -> Array:
    """Rows beyond the reach, or where several arguments are tiny."""
    return np.asarray(m.beyond | tiny_at_once(m))


@derived
def uncommon(m: Measurements) -> Array:
    """Rows at which one of several arguments is no number that it has in practice, so far as anybody can say."""
    found = np.zeros(m.count, bool)
    for far, _ in _far_off(m):
        found |= far
    return found


def why_uncommon(m: Measurements, row: int) -> str:
    """The first argument that is far off in a row, and how."""
    return next((why for far, why in _far_off(m) if far[row]), "")


def _far_off(m: Measurements) -> Iterator[tuple[Array, str]]:
    """For each of several arguments: the rows in which it is far off, and why they are.

    Of a single argument the reach says how far it goes. Of several, each in its own unit, nobody knows.
    """
    for leaf, points in zip(m.subject.leaves, m.points, strict=True):
        numbers = points.reshape(m.count, -1)
        if leaf.domain is None or not leaf.domain.states_a_size:
            low, high = EVERYDAY.value
            size = np.abs(numbers)
            far = ((size > high) | ((size > 0) & (size < low))).any(axis=1)
            if len(m.points) > 1:
                yield np.asarray(far), f"`{leaf.path}` has no everyday size"
        quantity = None if leaf.domain is not None else quantity_of(leaf.path)
        if quantity is not None:
            below = numbers <= quantity.low if quantity.low_open else numbers < quantity.low
            far = (below | (numbers > quantity.high)).any(axis=1)
            yield np.asarray(far), f"`{leaf.path}` is {quantity.otherwise}"

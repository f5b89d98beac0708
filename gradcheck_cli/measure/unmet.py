"""Rows at which no model is: what breaks only there is a note (SEMANTICS A5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import EVERYDAY, TINY_AT_ONCE, half_of_the_digits
from gradcheck_cli.inputs.quantities import quantity_held_by
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.divisors import divided_by_zero
from gradcheck_cli.measure.exponents import of_no_exponent
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
    """Rows at which an argument is no number that it has in practice, so far as anybody can say."""
    found = np.zeros(m.count, bool)
    for far, _ in _far_off(m):
        found |= far
    return found


def why_uncommon(m: Measurements, row: int) -> str:
    """The first argument that is far off in a row, and how."""
    return next((why for far, why in _far_off(m) if far[row]), "")


def _far_off(m: Measurements) -> Iterator[tuple[Array, str]]:
    """Rows that nobody means, and why."""
    yield from _of_no_everyday_size(m)
    yield from _unnatural(m)
    yield from _dividing(m)
    yield from _raising(m)


def _of_no_everyday_size(m: Measurements) -> Iterator[tuple[Array, str]]:
    """For each of several arguments whose size nobody states: the rows in which that is far from everyday ones.

    Of a single argument the reach says how far it goes. Of several, each in its own unit, nobody knows.
    """
    low, high = min(EVERYDAY.value[0], half_of_the_digits(m.fmt.eps)), EVERYDAY.value[1]
    for leaf, points in zip(m.subject.leaves, m.points, strict=True):
        if len(m.arguments) > 1 and (leaf.domain is None or not leaf.domain.states_a_size):
            size = np.abs(points.reshape(m.count, -1))
            far = ((size > high) | ((size > 0) & (size < low))).any(axis=1)
            yield np.asarray(far), f"`{leaf.path}` has no everyday size"


def _dividing(m: Measurements) -> Iterator[tuple[Array, str]]:
    """For each argument that divides: the rows in which it is 0, unless somebody says that it may be."""
    for place, leaf in enumerate(m.subject.leaves):
        if not leaf.is_stated:
            yield divided_by_zero(m, place), f"`{leaf.path}` divides, and is 0"


def _raising(m: Measurements) -> Iterator[tuple[Array, str]]:
    """For each argument that is an exponent: the rows in which it is a larger one than any, unless somebody says that it may be."""
    for place, leaf in enumerate(m.subject.leaves):
        if not leaf.is_stated:
            yield (
                of_no_exponent(m, place),
                f"`{leaf.path}` is an exponent larger than any that is met",
            )


def _unnatural(m: Measurements) -> Iterator[tuple[Array, str]]:
    """For each quantity: the rows in which it is none."""
    for leaf, points in zip(m.subject.leaves, m.points, strict=True):
        quantity = quantity_held_by(leaf)
        if quantity is not None:
            far = ~quantity.has(points.reshape(m.count, -1)).all(axis=1)
            yield np.asarray(far), f"`{leaf.path}` is {quantity.otherwise}"

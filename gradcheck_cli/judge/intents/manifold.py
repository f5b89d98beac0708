"""`expect(manifold: q)`: the gradient projected on the tangent space that an argument moves in.

There are two such spaces: unit vectors along the last axis, and symmetric matrices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import SPHERE
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import Doubt, argument_of, at, common_cells, formula
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import START_BITS, working

Array = np.ndarray[Any, Any]

_FEWEST = 3
_FAMILIES = ("unit", "orthogonal", "symmetric", "spd")
_NAMES = re.compile(r"(?i:quat|unit|direction|normal|rotation|orient|sphere|tangent)|^[qnuR]$")


@dataclass(frozen=True, slots=True)
class Manifold:
    name: str = "manifold"
    answers: frozenset[RuleName] = frozenset({RuleName.GRADIENT_MISMATCH})

    def broken(self, m: Measurements, argument: str | None) -> str | Doubt | None:
        paths = [leaf.path for leaf in m.subject.leaves]
        if argument not in paths:
            return f"there is no argument `{argument}` that is differentiated"
        shape = m.subject.leaves[paths.index(argument)].shape
        if not shape:
            return None  # nothing to project: `covers` says that it answers nothing
        if m.in_part:
            return Doubt(f"only some components of the gradient of `{argument}` are judged")
        square = len(shape) > 1 and shape[-1] == shape[-2]
        laws = [_on_the_sphere, *([_symmetric] if square else [])]
        with working(START_BITS):
            rows = list(_rows(m, paths.index(argument)))
            if len(rows) < _FEWEST:
                return Doubt(f"at only {len(rows)} probes the gradient of `{argument}` is known")
            failing = [next((r for r, *case in rows if not law(*case)), None) for law in laws]
        if None in failing:
            return None
        return (
            f"at {at(m, failing[0] or 0)} the gradient is no projection of the truth "
            "(on unit vectors, or on symmetric matrices)"
        )

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        argument = argument_of(m, failure.component)
        if self.covers(failure, m, argument) and _may_move_on_one(m, argument):
            yield argument

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        shapes = {leaf.path: leaf.shape for leaf in m.subject.leaves}
        return argument_of(m, failure.component) == argument and bool(shapes.get(argument or ""))


def _may_move_on_one(m: Measurements, argument: str | None) -> bool:
    """Does a name or a domain say so? A slip may take away the same part: it is not offered to be declared."""
    leaf = next(each for each in m.subject.leaves if each.path == argument)
    family = "" if leaf.domain is None else leaf.domain.bounds.family
    return family in _FAMILIES or _NAMES.search(leaf.path) is not None


def _rows(m: Measurements, leaf: int) -> Iterator[tuple[int, Array, Array, Array]]:
    """Rows at which the whole gradient is known, with point, gradient and truth of the argument."""
    counts: dict[int, int] = {}
    for row, _ in common_cells(m):
        counts[row] = counts.get(row, 0) + 1
    start = sum(spec.size for spec in m.subject.leaves[:leaf])
    spec = m.subject.leaves[leaf]
    part = slice(start, start + spec.size)
    ours, truth = formula(m), m.reference.balls(GRADIENTS)
    for row, count in counts.items():
        if count == ours.shape[1]:
            point = np.asarray(exact(m.points[leaf][row])).reshape(spec.shape)
            yield row, point, ours[row, part].reshape(spec.shape), truth[row, part].reshape(spec.shape)  # fmt: skip


def takes_what_points_outwards(m: Measurements, argument: str) -> bool:
    """Is the gradient exactly the truth without its part along the argument?

    That part is `(x·t) x`, as on unit vectors, or `(x·t) x / (x·x)`, anywhere.
    """
    paths = [leaf.path for leaf in m.subject.leaves]
    shape = m.subject.leaves[paths.index(argument)].shape
    if m.in_part or not shape or shape[-1] < 2:
        return False
    with working(START_BITS):
        vectors = [v for _, *row in _rows(m, paths.index(argument)) for v in _vectors(*row)]
        telling = [(x, g, t) for x, g, t in vectors if not _dot(x, t).contains(0)]
        # Where nothing is left, the gradient may as well have been forgotten.
        left = [g for _, g, _ in telling if not all(number.contains(0) for number in g)]
        if min(len(telling), len(left)) < _FEWEST:
            return False
        return any(
            all(
                _without(x, _dot(x, t) / (_dot(x, x) if anywhere else 1), g, t)
                for x, g, t in telling
            )
            for anywhere in (False, True)
        )


def _without(x: Array, along: arb, ours: Array, truth: Array) -> bool:
    """Is the gradient the truth less this much of the argument?"""
    return all(a.overlaps(b - along * c) for a, b, c in zip(ours, truth, x, strict=True))


def _vectors(x: Array, ours: Array, truth: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Point, gradient and truth of each vector along the last axis."""
    size = x.shape[-1]
    yield from zip(*(a.reshape(-1, size) for a in (x, ours, truth)), strict=True)


def _on_the_sphere(x: Array, ours: Array, truth: Array) -> bool:
    """Does gradient minus truth point outwards only; on the sphere, is nothing outward left?

    A rounded x is only near the sphere: that distance is what tangency may be missed by.
    """
    size = x.shape[-1]
    for q, g, t in _vectors(x, ours, truth):
        taken = g - t
        k = int(np.abs(np.array([float(number) for number in q])).argmax())
        if any(not (taken[i] * q[k] - taken[k] * q[i]).contains(0) for i in range(size)):
            return False
        off = abs(_dot(q, q) - 1)
        if off < SPHERE.value and abs(_dot(g, q)) > off * abs(_dot(t, q)):
            return False
    return True


def _dot(a: Array, b: Array) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def _symmetric(x: Array, ours: Array, truth: Array) -> bool:
    turned, doubled = np.swapaxes(ours, -1, -2), truth + np.swapaxes(truth, -1, -2)
    pairs = zip(ours.flat, turned.flat, doubled.flat, strict=True)
    return all(a.overlaps(b) and (2 * a).overlaps(c) for a, b, c in pairs)


MANIFOLD = Manifold()

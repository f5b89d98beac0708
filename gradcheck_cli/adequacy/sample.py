"""The judged rows at which changes are looked for: ordinary numbers, dense cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import CHANGE_NOISE, CHANGE_POINTS, CHANGE_ROWS
from gradcheck_cli.inputs.cotangents import BASE, OTHER
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_ORDINARY = 16  # rows of ordinary numbers
_HUGE = 20.0
_SPREAD = 0.35  # how far random points lie from judged ones, in powers of e


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rows of measurements, with the gradients there: the truth's, or the rule's own."""

    points: list[Array]
    cotangents: list[Array]
    gradients: list[Array]

    @property
    def count(self) -> int:
        return len(self.points[0])


def sample(m: Measurements) -> Sample:
    """Rows that are judged whole, and where the rule is what autodiff says; the gradient is the truth."""
    rows = _rows(m)
    flat = m.reference.middle(GRADIENTS)[rows]
    if m.rule is not None:
        alike = _alike(flat, as_floats(columns([g[rows] for g in m.rule.gradients], len(rows))))
        rows, flat = rows[alike], flat[alike]
    return Sample([p[rows] for p in m.points], [c[rows] for c in m.cotangents], _split(m, flat))


def sample_of_rule(m: Measurements) -> Sample:
    """These rows with the rule's gradients over the reals."""
    assert m.rule is not None
    rows = _rows(m)
    flat = as_floats(columns([g[rows] for g in m.rule.gradients], len(rows)))
    return Sample([p[rows] for p in m.points], [c[rows] for c in m.cotangents], _split(m, flat))


def beside(points: Sequence[Array], seed: int) -> tuple[Array, list[Array]]:
    """Random points around some rows, of the same signs: which row each belongs to, and the numbers."""
    rng = np.random.default_rng(seed)
    rows = np.arange(CHANGE_POINTS.value) % len(points[0])
    return rows, [
        p[rows] * np.exp(rng.uniform(-_SPREAD, _SPREAD, (CHANGE_POINTS.value, *p.shape[1:])))
        for p in points
    ]


def _rows(m: Measurements) -> Array:
    """Rows at which everything is regular: the most ordinary ones, and some of all others."""
    dense = np.array([p.cotangent in (BASE, OTHER) for p in m.probes], bool)
    states = np.concatenate([m.reference.states(VALUES), m.reference.states(GRADIENTS)], axis=1)
    fits = dense & ~m.beyond & (states == REGULAR).all(axis=1)
    if not fits.any():
        fits = dense & ~m.beyond & np.isin(states, (REGULAR, LIMIT)).all(axis=1)
    rows = np.flatnonzero(fits)
    rows = rows[np.lexsort((rows, _oddness(columns(m.points, m.count)[rows])))]
    rest = rows[_ORDINARY:]
    spread = rest[:: max(1, len(rest) // (CHANGE_ROWS.value - _ORDINARY))][
        : CHANGE_ROWS.value - _ORDINARY
    ]
    return np.asarray(np.concatenate([rows[:_ORDINARY], spread]))


def _oddness(values: Array) -> Array:
    """For each row: how many of its numbers are huge, tiny, 0, ±1, or there twice."""
    sizes = np.abs(values)
    odd = (sizes > _HUGE) | (sizes < 1 / _HUGE) | (sizes == 1)
    ordered = np.sort(values, axis=1)
    return np.asarray(odd.sum(axis=1) + (np.diff(ordered, axis=1) == 0).sum(axis=1))


def _alike(truth: Array, rule: Array) -> Array:
    """Rows at which two gradients are the same; at others the rule is judged by something else."""
    if not len(truth):
        return np.zeros(0, bool)
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(truth), np.abs(rule)).max(axis=1, initial=0.0)
        gap = np.abs(truth - rule).max(axis=1, initial=0.0)
    return np.asarray(gap <= CHANGE_NOISE.value * size)


def _split(m: Measurements, flat: Array) -> list[Array]:
    """All components of a row as one array for each argument."""
    cuts = np.cumsum([leaf.size for leaf in m.subject.leaves])[:-1]
    shapes = [leaf.shape for leaf in m.subject.leaves]
    parts = np.split(flat, cuts, axis=1)
    return [part.reshape(len(flat), *shape) for part, shape in zip(parts, shapes, strict=True)]

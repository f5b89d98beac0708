"""`expect(gauge)`: right for every loss that does not see which of several equal answers it got.

A loss of eigenvectors or of a basis may mean only what stays when the columns are turned among
themselves, or scaled; singular vectors turn in pairs. A cotangent of such a loss is what is left
when the part along these changes is taken away: there rule and truth must be the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import GAUGE_TELLING
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import Doubt, at
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import working

Array = np.ndarray[Any, Any]
# What a loss without eyes for the gauge gives instead: outputs and cotangents of one row.
Blind = Callable[[Sequence[Array], Sequence[Array]], list[Array]]

_BASES = frozenset({"eig", "eigh", "geqrf", "householder_product", "qr", "schur", "svd"})
_BITS = 192
_MOST, _FEWEST = 6, 3  # rows


@dataclass(frozen=True, slots=True)
class Gauge:
    name: str = "gauge"
    answers: frozenset[RuleName] = frozenset({RuleName.GRADIENT_MISMATCH})

    def broken(self, m: Measurements, argument: str | None) -> str | Doubt | None:
        return _broken(m)

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return _has_matrix(m)

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        if _has_matrix(m) and _finds_a_basis(m) and not m.dear and m.sources.over_reals:
            yield None


def _finds_a_basis(m: Measurements) -> bool:
    """Does the function find a basis, of which there are several? Whoever means another one has to say so."""
    program = m.subject.traces().primal
    return program is not None and not program.primitives().isdisjoint(_BASES)


def _has_matrix(m: Measurements) -> bool:
    return any(len(shape) > 1 for shape in m.subject.outputs)


@derived
def _broken(m: Measurements) -> str | Doubt | None:
    if not _has_matrix(m):
        return None  # no gauge: `covers` says that it answers nothing
    if m.in_part or not m.sources.over_reals:
        return Doubt("its law is one over the reals, and there the rule was not judged")
    rows = _rows(m)
    if len(rows) < _FEWEST:
        return Doubt(f"at only {len(rows)} points the gradient is known")
    with working(_BITS):
        values = _values(m, rows)
        for blind in _BLIND:
            weights = [blind(_at(values, i), _weights(m, row)) for i, row in enumerate(rows)]
            if _agree(m, rows, [np.stack(w) for w in zip(*weights, strict=True)]):
                return None
    return (
        f"at {at(m, rows[0])}, and for losses that do not see how columns or rows are turned or "
        "scaled, the gradient is still not the truth's, or they do not see the argument at all"
    )


def _rows(m: Measurements) -> list[int]:
    """Ordinary points at which value, truth and formula are all regular."""
    assert m.rule is not None
    settled = (m.reference.states(GRADIENTS) == REGULAR).all(axis=1)
    settled &= (m.reference.states(VALUES) == REGULAR).all(axis=1)
    settled &= (columns(m.rule.gradient_states, m.count) == REGULAR).all(axis=1)
    sizes = np.abs(columns(m.points, m.count)).max(axis=1, initial=0)
    return sorted((int(r) for r in m.base_rows if settled[r]), key=lambda r: sizes[r] > 100)[:_MOST]


def _values(m: Measurements, rows: Sequence[int]) -> list[Array]:
    """Balls of the value as narrow as the working precision: what is subtracted must be gone."""
    ask = Ask(_BITS - 64, ties=False, nudged=False)
    truth = m.sources.primal.evaluate(
        [p[rows] for p in m.points], [c[rows] for c in m.cotangents], ask
    )
    return truth.values


def _at(values: Sequence[Array], row: int) -> list[Array]:
    """The value of each output at a row; that of a single number as an array, too."""
    return [np.asarray(value[row]) for value in values]


def _weights(m: Measurements, row: int) -> list[Array]:
    return [np.asarray(exact(c[row])) for c in m.cotangents]


def _agree(m: Measurements, rows: Sequence[int], weights: Sequence[Array]) -> bool:
    """Rule and truth with these cotangents, at enough rows that can tell.

    One where the true gradient of an argument that is at stake is 0 tells nothing: any factor of it is 0, too.
    """
    assert m.sources.rule is not None
    ask = Ask(m.reference.goal, ties=False, nudged=False)
    points = [p[rows] for p in m.points]
    truth, rule = (
        columns(s.evaluate(points, weights, ask).gradients, len(rows))
        for s in (m.sources.primal, m.sources.rule)
    )
    telling, at_stake = 0, _at_stake(m)
    for ours, theirs in zip(rule, truth, strict=True):
        gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
        if any(gap.is_finite() and not gap.contains(0) for gap in gaps):
            return False
        largest = max(float(abs(t).upper()) for t in theirs)
        known = all(float(gap.rad()) < GAUGE_TELLING.value * largest for gap in gaps)
        telling += known and all(_is_something(theirs[part]) for part in at_stake)
    return telling >= _FEWEST


def _at_stake(m: Measurements) -> list[slice]:
    """The components of each argument of which rule and truth are apart for other losses."""
    differs = comparison(m).differs
    ends = np.cumsum([len(elements) for _, elements in m.components(GRADIENTS)]).tolist()
    parts = [slice(start, end) for start, end in itertools.pairwise([0, *ends])]
    return [part for part in parts if differs[:, part].any()]


def _is_something(gradient: Array) -> bool:
    return any(not each.contains(0) for each in gradient)


# -- what a loss does not see ---------------------------------------------------------------


def _scaled_columns(values: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
    """Weights of a loss that sees the direction of each column, not its length."""
    return [_each(v, w, _off_its_line) for v, w in zip(values, weights, strict=True)]


def _turned_columns(values: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
    """Weights of a loss that sees the space that orthonormal columns span."""
    return [_each(v, w, _off_turns) for v, w in zip(values, weights, strict=True)]


def _turned_rows(values: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
    pairs = zip(values, weights, strict=True)
    return [_turned(_each(_turned(v), _turned(w), _off_turns)) for v, w in pairs]


def _turned_in_pairs(values: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
    """Weights of a loss of the product u·vh: the columns of u turn with the rows of vh."""
    matrices = [k for k, v in enumerate(values) if v.ndim > 1]
    if len(matrices) != 2 or not _multiply(*(values[k].shape for k in matrices)):
        return list(weights)
    u, vh = (_stack(values[k]) for k in matrices)
    cu, cv = (_stack(weights[k]) for k in matrices)
    turns = [_antisymmetric(a.T @ ca - cb @ b.T) / arb(2) for a, b, ca, cb in zip(u, vh, cu, cv, strict=True)]  # fmt: skip
    left = np.stack([ca - a @ turn for a, ca, turn in zip(u, cu, turns, strict=True)])
    right = np.stack([cb + turn @ b for b, cb, turn in zip(vh, cv, turns, strict=True)])
    changed = dict(zip(matrices, (left, right), strict=True))
    return [changed[k].reshape(w.shape) if k in changed else w for k, w in enumerate(weights)]


def _multiply(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Can arrays of these shapes be multiplied, matrix by matrix?"""
    return left[:-2] == right[:-2] and left[-1] == right[-2]


_BLIND: tuple[Blind, ...] = (_scaled_columns, _turned_columns, _turned_rows, _turned_in_pairs)


def _off_its_line(v: Array, w: Array) -> Array:
    return np.asarray(w - v * ((v * w).sum(axis=0) / (v * v).sum(axis=0)))


def _off_turns(v: Array, w: Array) -> Array:
    return np.asarray(w - v @ _antisymmetric(v.T @ w))


def _antisymmetric(a: Array) -> Array:
    return np.asarray((a - a.T) / arb(2))


def _stack(a: Array) -> Array:
    return a.reshape(-1, *a.shape[-2:])


def _turned(a: Array) -> Array:
    return np.swapaxes(a, -1, -2) if a.ndim > 1 else a


def _each(v: Array, w: Array, change: Callable[[Array, Array], Array]) -> Array:
    """The last two axes are a matrix; what has none is left as it is."""
    if v.ndim < 2:
        return w
    rows = zip(_stack(v), _stack(w), strict=True)
    return np.stack([change(a, b) for a, b in rows]).reshape(w.shape)


GAUGE = Gauge()

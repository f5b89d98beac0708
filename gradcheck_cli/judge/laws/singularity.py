"""Poles and kinks of the truth: what a rule gives there is worth a note; where just two numbers tie, an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import RADIUS
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import Comparison
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.tied_pairs import torn

Array = np.ndarray[Any, Any]

_TORN = (
    "the formula is wrong where two numbers tie: it is the derivative neither for the one order of them "
    "nor for the other, nor between these"
)


def singularities(facts: Comparison) -> Iterator[Failure]:
    """A note for a number at a pole of the truth, and for one beside both sides of a kink."""
    poles = np.flatnonzero(facts.finite_at_pole.any(axis=1))
    if len(poles):
        component = int(facts.finite_at_pole[poles[0]].argmax())
        message = "the truth has a pole, the rule gives a number"
        yield _note(int(poles[0]), component, Kind.POLE, message)
    outside = np.flatnonzero(facts.outside_kink)
    if len(outside):
        message = (
            "at a kink of the primal, the rule is not between the derivatives of the two sides"
        )
        yield _note(int(outside[0]), 0, Kind.KINK, message)


def torn_at_ties(m: Measurements) -> Iterator[Failure]:
    """An error where two numbers tie and the rule is neither of the two pieces there nor between them."""
    found = torn(m)
    if found is not None:
        yield Failure(
            RuleName.GRADIENT_MISMATCH, Severity.ERROR, found.row, GRADIENTS, found.component,
            Ground(Kind.KINK), _TORN, everywhere=True,
        )  # fmt: skip


def _note(row: int, component: int, kind: Kind, message: str) -> Failure:
    rule = RuleName.SAFE_AT_SINGULARITY
    return Failure(rule, Severity.NOTE, row, GRADIENTS, component, Ground(kind), message)


def radius_around_singularities(m: Measurements, facts: Comparison, rows: Array) -> float | None:
    """The distance from poles and kinks within which all these rows lie, if it is small."""
    singular = np.flatnonzero(facts.singular)
    if not len(singular):
        return None
    x = columns(m.points, m.count)
    apart = np.abs(x[rows][:, None] - x[singular][None])
    joint = apart.max(axis=2).min(axis=1)
    # Where each element has singularities of its own, its own distance counts.
    judged = apart[..., _judged(m)]
    own = np.where(facts.singular_at[singular][None], judged, np.inf).min(axis=1)
    alone = np.where(facts.differs[rows], own, 0.0).max(axis=1)
    radius = float(np.minimum(joint, alone).max())
    return radius if 0 < radius <= RADIUS.value else None


def _judged(m: Measurements) -> Array:
    """The numbers of the judged components among those of all arguments."""
    sizes = [int(np.prod(leaf.shape, dtype=int)) for leaf in m.subject.leaves]
    starts = np.cumsum([0, *sizes[:-1]])
    parts = m.components(GRADIENTS)
    return np.concatenate([start + each for start, (_, each) in zip(starts, parts, strict=True)])

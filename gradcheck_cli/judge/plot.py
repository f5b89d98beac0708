"""Correct bits along one argument: the numbers behind a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Plot
from gradcheck_cli.judge.witness import as_number, call_inputs
from gradcheck_cli.measure.accuracy import grade
from gradcheck_cli.measure.components import GRADIENTS, VALUES
from gradcheck_cli.measure.engine import line
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.sampled_subject import steps
from gradcheck_cli.measure.states import LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_DECADES_BELOW_ONE = 9  # what is smaller nobody meets, and a picture has no room for it
_A_DECADE = 4  # values
_STEPS = 100_000  # of flint for the truth at all values: a second
_FEWEST_ROWS = 32


def can_be_drawn(m: Measurements) -> bool:
    """Are rows so cheap, and whole, that a line of them may be looked at?"""
    return not (m.dear or m.in_part) and _STEPS // steps(m.subject) >= _FEWEST_ROWS


def plot_of(
    m: Measurements, row: int, leaf: int, element: int, also: Sequence[float] = ()
) -> Plot | None:
    """The plot along an element of a leaf, the rest as in the row; `also` are values that must be in it.

    None where the element alone cannot move.
    """
    spec = m.subject.leaves[leaf]
    if spec.domain is not None and spec.domain.joint:
        return None
    at = _values(m, leaf, also)
    if len(at) < _FEWEST_ROWS // 2:
        return None
    along = line(m, row, leaf, element, at)
    floats = along.floats[along.mode]
    index = [int(i) for i in np.unravel_index(element, spec.shape)] if spec.shape else []
    here = [p[row] for p in m.points]
    held = call_inputs(m.subject, here, m.recipes[row])
    return Plot(
        argument=spec.path,
        index=index,
        dtype=m.subject.dtype,
        at=[as_number(float(v), m.fmt) for v in at],
        value=_bits(along, floats.rule_value, VALUES),
        rule=None if floats.custom is None else _bits(along, floats.custom, GRADIENTS),
        autodiff=None if floats.auto is None else _bits(along, floats.auto, GRADIENTS),
        full=float(m.fmt.digits),
        held=[item for k, item in enumerate(held) if k != leaf or index],
    )


def _values(m: Measurements, leaf: int, also: Sequence[float]) -> Array:
    """Evenly over the decades up to the largest number that was tried, and inside the domain."""
    largest = max((float(np.abs(p).max(initial=1)) for p in m.spread), default=1.0)
    above = float(np.log10(max(largest, 1.0)))
    wanted = round(_A_DECADE * (above + _DECADES_BELOW_ONE))
    count = min(wanted, _STEPS // steps(m.subject) // 2)
    sizes = m.fmt.round(
        np.minimum(np.logspace(-_DECADES_BELOW_ONE, above, count), max(largest, 1.0))
    )
    values = np.concatenate([-sizes, [0.0], sizes])
    domain = m.subject.leaves[leaf].domain
    inside = values if domain is None else domain.into(values, m.fmt)
    return np.unique(np.concatenate([inside, m.fmt.round(np.asarray(also, np.float64))]))


def _bits(along: Measurements, floats: Sequence[Array], what: str) -> list[float | None]:
    """Correct bits of the worst component beside the truth, all of them where floats are forgiven."""
    known = np.isin(along.reference.states(what), (REGULAR, LIMIT)).any(axis=1)
    bits = np.where(known, grade(along.reference, floats, what).bits, np.nan)
    return [None if np.isnan(b) else round(float(b), 1) for b in bits]

"""What one float result is, beside the truth there: the same words for a float and for a block of them.

The arrays may be numpy's or JAX's: `xp` is the module that computes with them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradcheck_cli.contract.limits import HEADROOM, ROUNDING_ULP, WARNING_EPS
from gradcheck_cli.inputs.floats import Format

# Codes of a map, from good to bad (SEMANTICS A4); then those of what is not judged.
FINE, TAIL, ZERO, LOST, HALF, INFINITE, NAN, OUTSIDE, OPEN, SUBNORMAL = range(10)
UNDECIDED = 255  # the truth is not known well enough to say: look closer
NAMES = ("fine", "tail", "zero", "lost", "half", "infinite", "nan", "outside", "open", "subnormal")
DIGITS = (TAIL, LOST, HALF)  # of which it is worth saying how many are left


class Known(NamedTuple):
    """The truth: within `rad` of `mid`; up to `reach` away from it nearby, where inputs are rounded.

    `scale` is the local one, beside which an error matters (SEMANTICS A3).
    """

    mid: Any
    rad: Any
    reach: Any
    scale: Any


class Limits(NamedTuple):
    """What the format and the kind of result allow."""

    eps: float
    flush: float
    top: float
    edge: float

    @staticmethod
    def of(fmt: Format, *, value: bool) -> Limits:
        top = fmt.max * (1 - ROUNDING_ULP.value * fmt.eps)
        return Limits(fmt.eps, fmt.underflow, top, top * (1.0 if value else HEADROOM.value))


def classes(xp: Any, got: Any, truth: Known, limits: Limits) -> Any:
    """The code of each result; the results are float64."""
    size = xp.abs(truth.mid)
    least, most = xp.maximum(size - truth.rad, 0.0), size + truth.rad
    error = xp.abs(got - truth.mid)
    slack = ROUNDING_ULP.value * limits.eps
    fine = error + truth.rad <= truth.reach + slack * least + limits.flush
    bad = error - truth.rad > truth.reach + slack * most + limits.flush
    weak = limits.eps**0.5
    digits = xp.where(error > weak * size, xp.where(got == 0, ZERO, TAIL), FINE)
    digits = xp.where(error > WARNING_EPS.value * limits.eps * truth.scale, LOST, digits)
    digits = xp.where(error > weak * truth.scale, HALF, digits)
    vague = _near(error, weak * size, truth.rad) & (
        error <= WARNING_EPS.value * limits.eps * truth.scale
    )
    for edge in (WARNING_EPS.value * limits.eps, weak):
        vague = vague | _near(error, edge * truth.scale, truth.rad)
    digits = xp.where(vague, UNDECIDED, digits)
    code = xp.where(fine, FINE, xp.where(bad, digits, UNDECIDED))
    # Beyond the format's range an infinite or the largest number is right, and so is inf − inf.
    over, under = least > limits.edge, most <= limits.edge
    broken = xp.where(xp.isnan(got), NAN, INFINITE)
    edge = xp.where(over, FINE, xp.where(under, broken, UNDECIDED))
    same_side = xp.isnan(got) | (xp.sign(got) == xp.sign(truth.mid))
    edge = xp.where(over & ~same_side, INFINITE, edge)
    huge = ~(xp.abs(got) < limits.top)
    return xp.where(huge & ~(fine & ~xp.isnan(got)), edge, code).astype(np.uint8)


def _near(error: Any, edge: Any, rad: Any) -> Any:
    """Might the error lie on either side of the edge?"""
    return abs(error - edge) <= 2 * rad

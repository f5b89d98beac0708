"""Steps that only changed programs have: an operand instead of a result, a result scaled or rolled."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.floats.rules import RULES
from gradcheck_cli.reals.rules.rule import Rule

SPREAD, SCALED, ROLLED, TURNED, KEPT_AXES = "spread", "scaled", "rolled", "turned", "kept_axes"


def _spread(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """The operand itself, over the result's shape where its own is smaller."""
    (x,) = values
    shape = step.out_avals[0].shape
    room = len(shape) - (x.ndim - 1)
    x = x.reshape(x.shape[0], *(1,) * max(room, 0), *x.shape[1:])
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, (1, *shape)))]


def _scaled(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [values[0] * step.params["factor"]]


def _rolled(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [np.roll(values[0], 1, step.params["axis"] + 1)]


def _turned(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """A stack of matrices, each transposed."""
    return [np.swapaxes(values[0], -1, -2)]


def _kept_axes(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Axes of length one where a reduction took some away."""
    return [np.expand_dims(values[0], tuple(a + 1 for a in step.params["axes"]))]


PLAIN_RULES: dict[str, Rule] = {
    **RULES,
    SPREAD: _spread,
    SCALED: _scaled,
    ROLLED: _rolled,
    TURNED: _turned,
    KEPT_AXES: _kept_axes,
}

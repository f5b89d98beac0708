"""Cotangents by name: what a probe is multiplied with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BASE, OTHER, SUM, ZERO, TINY, HUGE = "base", "other", "sum", "zero", "tiny", "huge"
NEGATED = "negated"

# Short dyadics: exact in every float format, no two equal, none symmetric.
_WEIGHTS = (1.0, -0.5, 2.0, 0.75, -1.5, 0.25, 1.25, -2.5, 3.0, -0.625)
# So that lines of ten, or of five, are not alike: powers of two keep the weights short.
_ROUNDS = (1.0, -2.0, 0.5, -1.0, 2.0, -0.5)
TINY_FACTOR, HUGE_FACTOR = 2.0**-20, 2.0**20


def cotangent(name: str, outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    """One array per output. A single scalar output gets 1 as its base."""
    base, other = _weights(outputs, 0), _weights(outputs, 3)
    named = {
        BASE: base,
        OTHER: other,
        SUM: [a + b for a, b in zip(base, other, strict=True)],
        ZERO: [np.zeros_like(a) for a in base],
        NEGATED: [-a for a in base],
        TINY: [a * TINY_FACTOR for a in base],
        HUGE: [a * HUGE_FACTOR for a in base],
    }
    return named[name] if name in named else _one_hot(int(name.removeprefix("one-hot ")), outputs)


def one_hot_names(outputs: Sequence[tuple[int, ...]], most: int) -> list[str]:
    """Names of the first one-hot cotangents."""
    total = sum(int(np.prod(shape, dtype=int)) for shape in outputs)
    return [f"one-hot {k}" for k in range(min(total, most))]


def _weights(outputs: Sequence[tuple[int, ...]], start: int) -> list[Array]:
    weights, position = [], start
    for shape in outputs:
        size = int(np.prod(shape, dtype=int))
        line = [_weight(position + k) for k in range(size)]
        weights.append(np.array(line, np.float64).reshape(shape))
        position += size
    return weights


def _weight(position: int) -> float:
    line, place = divmod(position, len(_WEIGHTS))
    return _WEIGHTS[place] * _ROUNDS[line % len(_ROUNDS)]


def _one_hot(k: int, outputs: Sequence[tuple[int, ...]]) -> list[Array]:
    arrays = []
    for shape in outputs:
        size = int(np.prod(shape, dtype=int))
        line = np.zeros(size)
        if 0 <= k < size:
            line[k] = 1.0
        arrays.append(line.reshape(shape))
        k -= size
    return arrays

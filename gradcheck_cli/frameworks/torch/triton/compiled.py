"""Kernels at many points at once: what was traced of them, compiled, in place of the interpreter row by row.

The interpreter takes milliseconds for a program of the grid. Its floats are not a GPU's either; a few rows are held
to it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from gradcheck_cli.contract.limits import ROW_ALONE
from gradcheck_cli.frameworks.shared.batches import batch_size, host, padded
from gradcheck_cli.frameworks.shared.rows import Row
from gradcheck_cli.frameworks.shared.tracing import precision
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]
_FLUSHED = 8  # terms of one sum
AtOnce = Callable[[Sequence[Array], Sequence[Array]], Floats]


def at_once(trace: Callable[[], Any], dtype: str, outputs: int) -> AtOnce:
    """The floats of a rule that is traced in its dtype, of so many outputs, for rows of points and cotangents."""
    with precision(dtype):
        jaxpr = trace()
    compiled = jax.jit(jax.vmap(jax.extend.core.jaxpr_as_fun(jaxpr)))

    def run(points: Sequence[Array], cotangents: Sequence[Array]) -> Floats:
        arrays, count = [*points, *cotangents], len(points[0])
        size = batch_size(count)
        rows = [padded(a, size, str(aval.dtype)) for a, aval in zip(arrays, jaxpr.in_avals, strict=True)]  # fmt: skip
        with precision(dtype):
            outs = host(compiled(*rows), count)
        values = outs[:outputs]
        return Floats(values, values, outs[outputs:], None)

    return run


def is_near(whole: Row, alone: Row, i: int, dtype: str) -> bool:
    """Is row i of the batch what the interpreter gives, but for the order of its sums, and for subnormals that XLA takes for 0?"""
    for many, one in zip(whole, alone, strict=True):
        for a, b in zip(many or (), one or (), strict=True):
            size = np.abs(b[np.isfinite(b)]).max(initial=0)
            off = ROW_ALONE.value * size + _FLUSHED * float(ml_dtypes.finfo(dtype).tiny)
            if not np.allclose(a[i], b, rtol=ROW_ALONE.value, atol=off, equal_nan=True):
                return False
    return True

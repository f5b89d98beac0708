"""Many points at once: a program walked in float64 pairs, compiled by XLA and batched.

Its algebraic rewrites are switched off: a radius belongs to the operations that were written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.float64.domain import Balls64, flushed
from gradcheck_cli.reals.float64.pairs import Pair
from gradcheck_cli.reals.float64.rules import RULES
from gradcheck_cli.reals.pairs.certify import Bulk
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import walk

Array = np.ndarray[Any, Any]

_MOST_COMPILED = 16  # each holds memory maps, of which a process has few
# So many numbers of a program's steps are held at once, at most.
_ROOM = 2**24
_OPTIONS: dict[str, Any] = {"xla_disable_hlo_passes": "algsimp"}
# What runs in a moment is compiled as fast as may be: most of a check's time is XLA's.
_QUICK = _OPTIONS | {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
_FEW = 2**21  # numbers of all rows, or steps of all walks


def pairs64() -> Balls64:
    """A walk of one point in float64 pairs."""
    return Balls64(RULES)


def certify(
    program: Program,
    mids: Sequence[Array],
    rads: Sequence[Array] | None = None,
    domain: Callable[[], Balls64] = pairs64,
) -> Bulk:
    """All rows of the program's inputs (exact, or balls), a chunk at a time."""
    count = len(mids[0])
    middles = [np.asarray(m, np.float64) for m in mids]
    radii = [np.zeros_like(m) for m in middles] if rads is None else list(rads)
    with jax.enable_x64(True):
        size = _chunk(program, count)
        compiled = _compiled(program, size, domain)
        parts = []
        for start in range(0, count, size):
            cut = slice(start, start + size)
            args = [Pair(_padded(m[cut], size), _padded(r[cut], size)) for m, r in zip(middles, radii, strict=True)]  # fmt: skip
            parts.append(jax.device_get(compiled(*args)))
    outs, sure = zip(*parts, strict=True)
    columns = list(zip(*outs, strict=True))
    subnormal = [flushed(m).reshape(count, -1).any(axis=1) for m in middles]
    return Bulk(
        [np.concatenate([pair.mid for pair in column])[:count] for column in columns],
        [np.concatenate([pair.rad for pair in column])[:count] for column in columns],
        np.concatenate(sure)[:count] & ~np.any(subnormal, axis=0),
        np.zeros(count, bool),  # rows that met one are not sure
    )


def _chunk(program: Program, count: int) -> int:
    """A power of two, so that few sizes are ever compiled."""
    most = max(1, _ROOM // max(1, program.numbers()))
    return 1 << min((count - 1).bit_length(), most.bit_length() - 1)


def _padded(rows: Array, size: int) -> Array:
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows


@lru_cache(maxsize=_MOST_COMPILED)
def _compiled(program: Program, size: int, domain: Callable[[], Balls64]) -> Any:
    return compiled(program, size, domain)


def compiled(program: Program, size: int, domain: Callable[[], Balls64] = pairs64) -> Any:
    """A walk of so many rows as one function: pairs in, pairs and certainty out."""
    rows = [jax.ShapeDtypeStruct((size, *aval.shape), jnp.float64) for aval in program.in_avals]
    pairs = [Pair(row, row) for row in rows]
    lowered = jax.jit(jax.vmap(lambda *args: _one(program, args, domain()))).lower(*pairs)
    is_short = size * max(program.numbers(), by_flint(program)) <= _FEW
    return lowered.compile(compiler_options=_QUICK if is_short else _OPTIONS)


def _one(program: Program, args: Sequence[Pair], domain: Balls64) -> tuple[list[Pair], Any]:
    outs = walk(program, domain, args)
    full = [
        Pair(*(jnp.broadcast_to(v, aval.shape) for v in out))
        for out, aval in zip(outs, program.out_avals, strict=True)
    ]
    return full, ~(domain.doubts | domain.ties)

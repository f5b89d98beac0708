"""Blocks of floats beside their polynomials, in few compiled calls that serve all programs."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import (
    DIGITS,
    FINE,
    INFINITE,
    NAN,
    Known,
    Limits,
    classes,
)
from gradcheck_cli.check.sweep.jets import Pieces
from gradcheck_cli.contract.limits import ROUNDING_ULP, SWEEP_REACH_ULP
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.correct_bits import correct_bits

Array = np.ndarray[Any, Any]

_AT_ONCE = 1 << 18  # floats that one compiled call judges, if they are not a whole chunk


def judge(chunk: Chunk, found: Pieces, starts: Array, size: int) -> None:
    """Every float of these blocks, which lie at `starts` in the chunk."""
    if not len(starts):
        return
    for k in range(len(chunk.got)):
        if size == len(chunk.xs):
            _judge_some(chunk, k, found, np.zeros(1, int), np.zeros(1, int), size)
            continue
        width = min(size, _AT_ONCE)
        inner = np.arange(0, size, width)
        rows = (starts[:, None] + inner[None]).reshape(-1) // width
        owner = np.repeat(np.arange(len(starts)), len(inner))
        per_call = _AT_ONCE // width
        for first in range(0, len(rows), per_call):
            cut = slice(first, first + per_call)
            fill = (0, per_call - len(rows[cut]))
            here, of = (np.pad(a[cut], fill, mode="edge") for a in (rows, owner))
            _judge_some(chunk, k, found, here, of, width)


def _judge_some(chunk: Chunk, k: int, found: Pieces, rows: Array, of: Array, width: int) -> None:
    """First whether all is fine, which is soon known; then what each float is."""
    xs, got, codes = (a.reshape(-1, width) for a in (chunk.xs, chunk.got[k], chunk.codes[k]))
    if len(rows) > 1 or len(xs) > 1:
        xs, got = xs[rows], got[rows]
    value = k < len(chunk.got) - 1
    if (uniform := _uniform(got, found, k, of, Limits.of(chunk.fmt, value=value))) is not None:
        codes[rows] = uniform
        return
    args = (xs, got, found.centres[of], found.coefficients[:, k, of], found.rads[k, of])
    with jax.enable_x64(True):
        if np.asarray(_all_fine(chunk.fmt)(*args)).all():
            codes[rows] = FINE
            return
        made = np.asarray(_each(chunk.fmt, value)(*args, found.scales[k, of]))
    codes[rows] = made
    if np.isin(made, DIGITS).any():
        _count_bits(chunk, k, rows, made, found, of)


def _uniform(got: Array, found: Pieces, k: int, of: Array, limits: Limits) -> int | None:
    """Infinite or NaN all over, where the truth is a number well within the format."""
    if np.isfinite(got[0, 0]):
        return None
    with np.errstate(all="ignore"):
        most = (np.abs(found.coefficients[:, k, of]) * found.halves[of] ** np.arange(3)[:, None]).sum(axis=0)  # fmt: skip
        small = (most * (1 + 2.0**-50) + found.rads[k, of] <= limits.edge).all()
    if not small:
        return None
    if np.isnan(got).all():
        return NAN
    return INFINITE if np.isinf(got).all() else None


def _polynomial(x: Any, centre: Any, coefficients: Any) -> tuple[Any, Any]:
    """Its value and its slope."""
    t = x - centre[:, None]
    c0, c1, c2 = (c[:, None] for c in coefficients)
    return c0 + t * (c1 + t * c2), jnp.abs(c1 + 2 * c2 * t)


@functools.cache
def _all_fine(fmt: Format) -> Any:
    """(floats, results, polynomials) → is every result of the block good to a few ulps?"""
    slack, flush = ROUNDING_ULP.value * fmt.eps, fmt.underflow

    def run(xs: Any, got: Any, centre: Any, coefficients: Any, rad: Any) -> Any:
        mid, _ = _polynomial(xs.astype(jnp.float64), centre, coefficients)
        room = slack * jnp.abs(mid) + (flush - rad * (1 + slack))[:, None]
        return (jnp.abs(got.astype(jnp.float64) - mid) <= room).all(axis=1)

    return jax.jit(run)


@functools.cache
def _each(fmt: Format, value: bool) -> Any:
    """(floats, results, polynomials) → the code of each float."""
    limits = Limits.of(fmt, value=value)

    def run(xs: Any, got: Any, centre: Any, coefficients: Any, rad: Any, scale: Any) -> Any:
        x = xs.astype(jnp.float64)
        mid, slope = _polynomial(x, centre, coefficients)
        reach = jnp.maximum(SWEEP_REACH_ULP.value * _ulp(xs, fmt), jnp.where(jnp.abs(x) < fmt.tiny, fmt.tiny, 0.0))  # fmt: skip
        known = Known(mid, rad[:, None], slope * reach, scale[:, None])
        return classes(jnp, got.astype(jnp.float64), known, limits)

    return jax.jit(run)


def _ulp(xs: Any, fmt: Format) -> Any:
    """The power of two below each float, times eps: its bits without those of the significand."""
    bits = jax.lax.bitcast_convert_type(xs, fmt.bits)
    power = jax.lax.bitcast_convert_type(bits & _exponent_mask(fmt), xs.dtype)
    return power.astype(jnp.float64) * fmt.eps


def _exponent_mask(fmt: Format) -> Any:
    width = np.dtype(fmt.bits).itemsize * 8
    return fmt.bits(((1 << (width - 1)) - 1) & ~((1 << (fmt.digits - 1)) - 1))


def _count_bits(chunk: Chunk, k: int, rows: Array, codes: Array, found: Pieces, of: Array) -> None:
    """How many digits are left where some are lost."""
    row, column = np.nonzero(np.isin(codes, DIGITS))
    places, owner = rows[row] * codes.shape[1] + column, of[row]
    t = chunk.xs[places].astype(np.float64) - found.centres[owner]
    c0, c1, c2 = found.coefficients[:, k, owner]
    bits = correct_bits(chunk.got[k][places], c0 + t * (c1 + t * c2), chunk.fmt)
    chunk.digits(k)[places] = bits + 0.0  # no −0

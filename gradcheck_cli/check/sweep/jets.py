"""A subject along its one argument, and the polynomial that it is over a block of floats.

f(x) = f(c) + f'(c)(x − c) + f''(c)(x − c)²/2 ± M|x − c|³/6 with M a bound of |f'''| over the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flint import arb

from gradcheck_cli.reals.balls.balls import Balls
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.float64.certify import certify
from gradcheck_cli.reals.float64.domain import bound
from gradcheck_cli.reals.float64.wide_pairs import stretches
from gradcheck_cli.reals.pairs.certify import Bulk
from gradcheck_cli.reals.program import SIGN_BIT, Program, build
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.reals.walk import NoRealMeaning, walk
from gradcheck_cli.subject.user_code import calling_user_code

Array = np.ndarray[Any, Any]

DEGREE = 2
_SIZES = (256, 4096)  # numbers of blocks that are computed at once: each is one compile
_BALL_BITS = 192
SCALES = (1 / 16, 1 / 4, 1 / 2, 2)
_ROUNDING = 2.0**-49  # of the polynomial itself, computed in float64


@dataclass(frozen=True, slots=True)
class Pieces:
    """For each block and each result: coefficients around its centre, and what they leave open."""

    centres: Array  # [block]
    halves: Array  # [block]
    coefficients: Array  # [degree, result, block]
    rads: Array  # [result, block]
    bounds: Array  # [result, block], of the next derivative all over the block
    scales: Array  # [result, block]

    def take(self, which: Array) -> Pieces:
        return Pieces(
            self.centres[which],
            self.halves[which],
            self.coefficients[:, :, which],
            self.rads[:, which],
            self.bounds[:, which],
            self.scales[:, which],
        )


@dataclass(frozen=True, slots=True)
class Jet:
    """A program of one number, and the same with its derivatives."""

    plain: Program
    derivatives: Program
    results: int


def jet_of(program: Program, cotangents: Sequence[float], dtype: str) -> Jet:
    """x → results, for a program (x, cotangents…) → results of numbers."""
    fun = _as_function(program)
    aval = jax.ShapeDtypeStruct((), jnp.dtype(dtype))

    def plain(x: Any) -> tuple[Any, ...]:
        given = [jnp.asarray(c, a.dtype) for c, a in zip(cotangents, program.in_avals[1:], strict=True)]  # fmt: skip
        return tuple(fun(x, *given))

    def all_orders(x: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        current = plain
        for _ in range(DEGREE + 2):
            found += current(x)
            current = _derivative(current)
        return tuple(found)

    made = [build(jax.make_jaxpr(f)(aval)) for f in (plain, all_orders)]
    return Jet(made[0], made[1], len(program.out_avals))


def _derivative(fun: Any) -> Any:
    return lambda x: jax.jvp(fun, (x,), (jnp.ones_like(x),))[1]


class _Native:
    """The walk as JAX itself would run it: a program becomes a function again."""

    rules: dict[str, Any] = {}  # noqa: RUF012 (none: every step is JAX's own)

    def constant(self, value: Any) -> Any:
        return value

    def kept(self, value: Any) -> Any:
        return value

    def native(self, step: Any, values: list[Any]) -> Sequence[Any]:
        if step.name == SIGN_BIT:
            raise NoRealMeaning(step.name)
        with calling_user_code():  # a primitive that JAX cannot differentiate, a callback
            return bound(step, values)


def _as_function(program: Program) -> Any:
    return lambda *args: walk(program, _Native(), args)


# -- pieces ---------------------------------------------------------------------------------


def pieces(jet: Jet, lows: Array, highs: Array) -> Pieces:
    """Polynomials for blocks [low, high], in float64 pairs; infinite radii where they know nothing."""
    centres, halves = _middles(lows, highs)
    at = _certified(jet.derivatives, centres, np.zeros_like(centres))
    over = _certified(jet.derivatives, centres, halves)
    mids, rads = _split(at, jet.results)
    wide_mids, wide_rads = _split(over, jet.results)
    with np.errstate(all="ignore"):
        bounds = np.abs(wide_mids[-1]) + wide_rads[-1]
        bounds[:, ~over.sure] = np.inf
    scales = _scales(jet, centres, np.abs(mids[0]))
    return _made(centres, halves, mids, rads, bounds, scales)


def sharper(jet: Jet, found: Pieces) -> Pieces:
    """Pieces with balls of flint at the centre, where float64 loses what it computes."""
    count = len(found.centres)
    with working(_BALL_BITS):
        numbers = elements([arb(c) for c in found.centres.tolist()], (count,))
        outs = walk(jet.derivatives, Balls(count), [numbers])
        balls = [np.broadcast_to(o, (count,)).tolist() for o in outs]
        mids = np.array([[float(b.mid()) for b in out] for out in balls])
        rads = np.array([[float(b.rad()) for b in out] for out in balls])
    shape = (DEGREE + 2, jet.results, count)
    mids, rads = mids.reshape(shape), rads.reshape(shape) + np.abs(mids.reshape(shape)) * 2.0**-52
    rads = np.where(np.isfinite(mids) & np.isfinite(rads), rads, np.inf)
    return _made(found.centres, found.halves, mids, rads, found.bounds, found.scales)


def _middles(lows: Array, highs: Array) -> tuple[Array, Array]:
    centres = lows / 2 + highs / 2
    halves = np.maximum(highs - centres, centres - lows) * (1 + 2.0**-50)
    return centres, halves


def _certified(program: Program, mids: Array, rads: Array) -> Bulk:
    """Padded to few sizes."""
    parts = []
    step = next((size for size in _SIZES if len(mids) <= size), _SIZES[-1])
    for start in range(0, len(mids), step):
        cut = slice(start, start + step)
        fill = step - len(mids[cut])
        both = [np.pad(a[cut], (0, fill), mode="edge") for a in (mids, rads)]
        parts.append(certify(program, [both[0]], [both[1]], stretches))
    count = len(mids)
    return Bulk(
        [np.concatenate(column)[:count] for column in zip(*(p.mids for p in parts), strict=True)],
        [np.concatenate(column)[:count] for column in zip(*(p.rads for p in parts), strict=True)],
        np.concatenate([p.sure for p in parts])[:count],
        np.concatenate([p.ties for p in parts])[:count],
    )


def _split(bulk: Bulk, results: int) -> tuple[Array, Array]:
    """[order, result, block]"""
    shape = (-1, results, len(bulk.sure))
    mids, rads = np.stack(bulk.mids).reshape(shape), np.stack(bulk.rads).reshape(shape).copy()
    return mids, np.where(np.isfinite(mids), rads, np.inf)


def _made(
    centres: Array, halves: Array, mids: Array, rads: Array, bounds: Array, scales: Array
) -> Pieces:
    factors = np.array([1.0, 1.0, 0.5])[:, None, None]
    coefficients = mids[: DEGREE + 1] * factors
    powers = np.stack([np.ones_like(halves), halves, halves**2])[:, None, :]
    with np.errstate(all="ignore"):
        loose = (rads[: DEGREE + 1] * factors * powers).sum(axis=0)
        rounding = _ROUNDING * np.abs(coefficients * powers).sum(axis=0)
        total = (loose + rounding + bounds * halves**3 / 6) * (1 + 2.0**-40)
    coefficients = np.where(np.isfinite(coefficients), coefficients, 0.0)
    rads = np.where(total >= 0, total, np.inf)
    return Pieces(centres, halves, coefficients, rads, bounds, scales)


def _scales(jet: Jet, centres: Array, here: Array) -> Array:
    """The largest size nearby (SEMANTICS A3), and of a gradient never less than the value's over x."""
    found = np.where(np.isfinite(here), here, 0.0)
    for factor in SCALES:
        at = _certified(jet.plain, centres * factor, np.zeros_like(centres))
        size = np.abs(np.stack(at.mids))
        found = np.maximum(found, np.where(np.isfinite(size), size, 0.0))
    found[-1] = np.maximum(found[-1], spread_floor(found[:-1].max(axis=0, initial=0.0), centres))
    return found


def spread_floor(values: Array, xs: Array) -> Array:
    """What the gradient would be if the value were spread evenly."""
    with np.errstate(all="ignore"):
        spread = values / np.abs(xs)
    return np.where(np.isfinite(spread), spread, 0.0)

"""Sums and products of many: the primitive itself on midpoints, sizes and radii.

However XLA orders n additions, they err by at most (n − 1)·ε·Σ|x|; long sums are cut into
pieces, so that n stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradcheck_cli.reals.facts import Law, functions
from gradcheck_cli.reals.float64.domain import bound, refused
from gradcheck_cli.reals.float64.pairs import EPS, XLA, Pair
from gradcheck_cli.reals.float64.rules.elementwise import on_floats
from gradcheck_cli.reals.float64.rules.moves import scattered
from gradcheck_cli.reals.rules.rule import Rule

_PIECE = 256
_ROOM = 1 + 2.0**-40


def _count(step: Any) -> int:
    shape = step.in_avals[0].shape
    return int(np.prod([shape[a] for a in step.params["axes"]], dtype=int))


def _reduce_sum(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (x,) = values
    axes = step.params["axes"]
    kept = [a for a in range(x.mid.ndim) if a not in axes]
    shape = [x.mid.shape[a] for a in kept]
    lines = Pair(*(v.transpose(*kept, *axes).reshape(*shape, _count(step)) for v in x))
    return [total(lines)]


def total(x: Pair) -> Pair:
    """The sum along the last axis, piece by piece."""
    alone = jnp.sum(x.mid != 0, axis=-1) <= 1  # zeros and one number: nothing is rounded
    rad, sizes = _plain(x.rad), _plain(jnp.abs(x.mid))
    mid, depth = x.mid, 0
    while mid.shape[-1] > _PIECE:
        room = -mid.shape[-1] % _PIECE
        padded = jnp.pad(mid, [(0, 0)] * (mid.ndim - 1) + [(0, room)])
        mid = jnp.sum(padded.reshape(*mid.shape[:-1], -1, _PIECE), axis=-1)
        depth += _PIECE
    depth += mid.shape[-1]
    mid = jnp.sum(mid, axis=-1)
    error = jnp.where(alone, 0.0, sizes * (2 * depth * EPS))
    infinite = jnp.any(jnp.isinf(x.mid), axis=-1) & ~jnp.isnan(mid) & (rad == 0)
    return XLA.within(mid, jnp.where(infinite, 0.0, rad * _ROOM + error))


def _plain(x: Any) -> Any:
    """A sum of sizes: nothing cancels, whatever the order."""
    return jnp.sum(x, axis=-1)


def _linear(count: Callable[[Any], int]) -> Callable[[Callable[..., Any]], Rule]:
    """A product that is linear in each of two operands, with so many terms."""

    def made(product: Callable[..., Any]) -> Rule:
        def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
            if step.out_avals[0].kind != "f":
                return list(domain.native(step, values))
            if not all(isinstance(v, Pair) for v in values):
                raise refused(step.name)
            a, b = values
            size = jnp.abs(a.mid), jnp.abs(b.mid)
            error = (count(step) + 2) * 2 * EPS
            rad = product(step, size[0], b.rad + error * size[1])
            rad = rad + product(step, a.rad, size[1] + b.rad)
            return [XLA.within(product(step, a.mid, b.mid), rad * _ROOM)]

        return rule

    return made


def _contracted(step: Any) -> int:
    ((left, _), _) = step.params["dimension_numbers"]
    return int(np.prod([step.in_avals[0].shape[d] for d in left], dtype=int))


def _dot(step: Any, a: Any, b: Any) -> Any:
    return lax.dot_general(a, b, step.params["dimension_numbers"], precision=lax.Precision.HIGHEST)


def _patch(step: Any) -> int:
    spec = step.params["dimension_numbers"].rhs_spec
    return int(np.prod([step.in_avals[1].shape[d] for d in spec[1:]], dtype=int))


def _conv(step: Any, a: Any, b: Any) -> Any:
    (out,) = bound(step, [a, b], preferred_element_type=None, precision=None)
    return out


def _cumulate(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        (x,) = values
        axis, reverse = step.params["axis"], step.params["reverse"]
        return [lax.associative_scan(XLA.binary[op], x, reverse=reverse, axis=axis)]

    return on_floats(rule)


def _reduce_prod(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """By halves."""
    (x,) = values
    axes = step.params["axes"]
    kept = [a for a in range(x.mid.ndim) if a not in axes]
    shape = [x.mid.shape[a] for a in kept]
    lines = Pair(*(v.transpose(*axes, *kept).reshape(_count(step), *shape) for v in x))
    while (count := lines.mid.shape[0]) > 1:
        half = count // 2
        even = Pair(*(v[:half] for v in lines)), Pair(*(v[half : 2 * half] for v in lines))
        rest = Pair(*(v[2 * half :] for v in lines))
        product = XLA.mul(*even)
        lines = Pair(*(jnp.concatenate(both) for both in zip(product, rest, strict=True)))
    if not lines.mid.shape[0]:
        return [XLA.known(jnp.ones(shape))]
    return [Pair(*(v[0] for v in lines))]


def _scatter_add(sign: int) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        operand, indices, updates = values
        if sign < 0:
            updates = XLA.neg(updates)
        mid = scattered(lax.scatter_add, step, [operand.mid, indices, updates.mid])
        sizes = scattered(
            lax.scatter_add, step, [jnp.abs(operand.mid), indices, jnp.abs(updates.mid)]
        )
        rad = scattered(lax.scatter_add, step, [operand.rad, indices, updates.rad])
        hits = scattered(
            lax.scatter_add,
            step,
            [(operand.mid != 0) * 1.0, indices, (updates.mid != 0) * 1.0],
        )
        error = jnp.where(hits <= 1, 0.0, sizes * hits * (2 * EPS))
        return [XLA.within(mid, rad * _ROOM + error)]

    return on_floats(rule)


def _reduce_window_sum(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (x,) = values
    count = int(np.prod(step.params["window_dimensions"], dtype=int))
    mid, sizes, rad = (bound(step, [v])[0] for v in (x.mid, jnp.abs(x.mid), x.rad))
    return [XLA.within(mid, rad * _ROOM + sizes * (2 * count * EPS))]


TABLE: dict[str, Rule] = {
    "conv_general_dilated": _linear(_patch)(_conv),
    **{name: _cumulate(op) for name, op in functions(Law.RUNNING).items() if op in XLA.binary},
    "dot_general": _linear(_contracted)(_dot),
    "reduce_prod": on_floats(_reduce_prod),
    "reduce_sum": on_floats(_reduce_sum),
    "reduce_window_sum": on_floats(_reduce_window_sum),
    "scatter-add": _scatter_add(1),
    "scatter-sub": _scatter_add(-1),
    "scatter_add": _scatter_add(1),
}

"""Comparisons, logic, selection, order and casts of pairs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from gradcheck_cli.reals.float64.domain import (
    Choice,
    bound,
    compared,
    decided,
    from_integers,
    from_tri,
    refused,
    tri,
)
from gradcheck_cli.reals.float64.pairs import XLA, Array, Pair, exact
from gradcheck_cli.reals.float64.rules.elementwise import on_floats
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES

_EQUAL = ("eq", "le", "ge")


def _compare(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        kind = step.in_avals[0].kind
        if kind == "b":
            a, b = values
            return [jnp.where((a == UNKNOWN) | (b == UNKNOWN), UNKNOWN, tri(_EXACT[op](a, b)))]
        if kind != "f":
            return list(domain.native(step, values))
        if step.ins[0] == step.ins[1]:
            return [jnp.full(jnp.shape(values[0].mid), YES if op in _EQUAL else NO, jnp.int8)]
        chosen = _known_choice(domain, step)
        if op in ("eq", "ne") and chosen is not None:
            return [chosen if op == "eq" else YES - chosen]
        return [domain.compare(op, *values)]

    return rule


def _known_choice(domain: Any, step: Any) -> Array | None:
    """Is one operand the maximum of the other? Then it is known which elements it is."""
    a, b = step.ins
    choice = domain.chosen.get((a, b)) or domain.chosen.get((b, a))
    if choice is None or jnp.shape(choice.mask) != step.out_avals[0].shape:
        return None
    domain.tied(choice.tied)
    return choice.mask


def _logic(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.in_avals[0].kind != "b":
        return list(domain.native(step, values))
    return [_LOGIC[step.name](*values)]


def _xor(a: Array, b: Array) -> Array:
    return jnp.where((a == UNKNOWN) | (b == UNKNOWN), UNKNOWN, tri(a != b))


_LOGIC: dict[str, Any] = {"and": jnp.minimum, "or": jnp.maximum, "xor": _xor, "not": lambda a: YES - a}  # fmt: skip
_EXACT: dict[str, Any] = {
    "eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less,
    "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal,
}  # fmt: skip


def _select_n(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    which, *cases = values
    if step.in_avals[0].kind != "b":
        return [_apiece(lambda *parts: lax.select_n(which, *parts), cases)]
    no, yes = cases
    kind = step.out_avals[0].kind
    if kind == "f":
        return [selected(which, no, yes)]
    out = jnp.where(which == YES, yes, no)
    if kind == "b":
        open_ = (which == UNKNOWN) & (no != yes)
        return [jnp.where(open_, UNKNOWN, out).astype(jnp.int8)]
    domain.doubt((which == UNKNOWN) & (no != yes))
    return [out]


def _apiece(function: Any, cases: list[Any]) -> Any:
    """The function on midpoints and on radii."""
    if isinstance(cases[0], Pair):
        return Pair(function(*(c.mid for c in cases)), function(*(c.rad for c in cases)))
    return function(*cases)


def selected(which: Array, no: Pair, yes: Pair) -> Pair:
    """One or the other; where it is not known which, both."""
    plain = XLA.where(which == YES, yes, no)
    return XLA.where(which == UNKNOWN, XLA.union(no, yes), plain)


def _is_finite(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """True for every real; an infinite constant is a point of its own."""
    (x,) = values
    domain.doubt(~jnp.isfinite(x.rad))
    return [jnp.where(jnp.isinf(x.mid), NO, YES).astype(jnp.int8)]


def _larger(op: str) -> Rule:
    """The maximum of two, and which of them it is."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        a, b = values
        out = XLA.binary[op](a, b)
        if step.ins[0] != step.ins[1] and jnp.shape(a.mid) == jnp.shape(b.mid):
            least, most = ("le", "ge") if op == "min" else ("ge", "le")
            for which, source in ((least, step.ins[0]), (most, step.ins[1])):
                domain.chosen[step.outs[0], source] = Choice(*compared(which, a, b))
        return [out]

    return on_floats(rule)


def _extreme(op: str) -> Rule:
    """The largest along axes, and which elements it may be."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        (x,) = values
        axes = step.params["axes"]
        out, choice = largest(x if op == "max" else XLA.neg(x), axes)
        domain.chosen[step.outs[0], step.ins[0]] = choice
        return [out if op == "max" else XLA.neg(out)]

    return on_floats(rule)


def largest(x: Pair, axes: tuple[int, ...]) -> tuple[Pair, Choice]:
    """The maximum along axes, and for each element whether it is the one."""
    lower, upper = XLA.ends(x)
    least = jnp.max(lower, axis=axes, keepdims=True)
    mid = jnp.max(x.mid, axis=axes)
    rivals = ~(upper < least)
    rad = jnp.max(jnp.where(rivals, x.rad, 0.0), axis=axes, initial=0.0)
    alone = jnp.sum(rivals, axis=axes, keepdims=True) == 1
    exactly = exact(x) & rivals & ~alone
    mask = decided(rivals & (alone | exactly), ~rivals)
    return Pair(mid, rad), Choice(mask, exactly & jnp.isfinite(x.mid))


def _every(op: str) -> Rule:
    """All or any of truth values; of integers, bit by bit."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        if step.in_avals[0].kind != "b":
            return list(domain.native(step, values))
        neutral = YES if op == "min" else NO
        pick = jnp.min if op == "min" else jnp.max
        return [pick(values[0], axis=step.params["axes"], initial=neutral)]

    return rule


def _arg(op: str) -> Rule:
    """The first place of the largest; in doubt where another might be larger."""

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        if step.in_avals[0].kind != "f":
            return list(domain.native(step, values))
        x = values[0] if op == "max" else XLA.neg(values[0])
        axes = step.params["axes"]
        _, choice = largest(x, axes)
        domain.doubt(choice.mask == UNKNOWN)
        domain.tied(choice.tied)
        return [jnp.argmax(choice.mask == YES, axis=axes[0]).astype(step.params["index_dtype"])]

    return rule


def _sort(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """By one key; neighbours that overlap put the point in doubt."""
    axis = step.params["dimension"]
    if not any(isinstance(v, Pair) for v in values):
        return list(domain.native(step, values))
    if step.params["num_keys"] != 1 or any(a.kind in "bk" for a in step.in_avals):
        raise refused("sort by several keys")
    key = values[0].mid if isinstance(values[0], Pair) else values[0]
    numbers = lax.broadcasted_iota(jnp.int32, jnp.shape(key), axis)
    _, order = lax.sort((key, numbers), dimension=axis, num_keys=1, is_stable=True)
    out = [_apiece(lambda v: jnp.take_along_axis(v, order, axis), [v]) for v in values]
    if isinstance(out[0], Pair):
        _neighbours(domain, out[0], axis)
    return out


def _neighbours(domain: Any, x: Pair, axis: int) -> None:
    count = x.mid.shape[axis]
    before = Pair(*(lax.slice_in_dim(v, 0, max(count - 1, 0), axis=axis) for v in x))
    after = Pair(*(lax.slice_in_dim(v, 1, max(count, 1), axis=axis) for v in x))
    close = ~(XLA.ends(before)[1] < XLA.ends(after)[0])
    both = exact(before) & exact(after)
    domain.doubt(close & ~both)
    domain.tied(close & both)


def _convert(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Between floats the identity, to integers the discrete functions they are."""
    (x,) = values
    source, target = step.in_avals[0].kind, step.out_avals[0].kind
    if source == target and source in "fb":
        return [x]
    if "c" in source + target:
        raise refused("complex")
    if target == "f":
        return [from_tri(x) if source == "b" else from_integers(x)]
    if source == "f":
        zero = XLA.known(jnp.zeros_like(x.mid))
        if target == "b":
            return [domain.compare("ne", x, zero)]
        return [domain.to_integers(x, step.out_avals[0].dtype)]
    if source == "b":
        return [domain.sure(x).astype(step.out_avals[0].dtype)]
    if target == "b":
        return [tri(x != 0)]
    return list(bound(step, values))


def _sign_bit(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (x,) = values
    below = domain.sure(domain.compare("lt", x, XLA.known(jnp.zeros_like(x.mid))))
    return [jnp.where(below, -1, 0).astype(step.out_avals[0].dtype)]


TABLE: dict[str, Rule] = {
    **{op: _compare(op) for op in _EXACT},
    **dict.fromkeys(_LOGIC, _logic),
    "argmax": _arg("max"),
    "argmin": _arg("min"),
    "convert_element_type": _convert,
    "is_finite": _is_finite,
    "max": _larger("max"),
    "min": _larger("min"),
    "reduce_and": _every("min"),
    "reduce_or": _every("max"),
    "reduce_max": _extreme("max"),
    "reduce_min": _extreme("min"),
    "select_n": _select_n,
    "sign_bit": _sign_bit,
    "sort": _sort,
}

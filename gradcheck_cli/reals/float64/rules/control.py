"""Control flow of pairs, as XLA runs it; a question that stays open puts the point in doubt."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from gradcheck_cli.contract.limits import COUNTED_TRIPS, FLOAT_TRIPS
from gradcheck_cli.reals.float64.pairs import Pair
from gradcheck_cli.reals.inner_jaxprs import held_and_carried
from gradcheck_cli.reals.rules.rule import Rule


def _inner(
    domain: Any, walk: Any, program: Any, values: list[Any]
) -> tuple[list[Any], tuple[Any, Any]]:
    """An inner program's results, with the flags of its walk."""
    inner = domain.inner()
    outs = walk(program, inner, values)
    return [
        _settled(out, aval) for out, aval in zip(outs, program.out_avals, strict=True)
    ], inner.flags


def _settled(value: Any, aval: Any) -> Any:
    """A value in the shape and dtype that its slot has, whichever way it came."""
    if aval.kind == "f":
        return Pair(*(jnp.broadcast_to(v, aval.shape) for v in value))
    if aval.kind in "bi":
        return jnp.broadcast_to(value, aval.shape).astype(
            jnp.int8 if aval.kind == "b" else aval.dtype
        )
    return value


def _cond(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    which, *operands = values
    index = domain.sure(which).astype(jnp.int32) if step.in_avals[0].kind == "b" else which
    branches = [
        lambda *operands, branch=branch: _inner(domain, walk, branch, list(operands))
        for branch in step.subs
    ]
    outs, flags = lax.switch(index, branches, *operands)
    domain.joined(flags)
    return list(outs)


def _scan(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (body,) = step.subs
    p = step.params
    first, carries = held_and_carried(p)
    last = first + carries
    consts, xs = values[:first], values[last:]
    carry = [_settled(v, aval) for v, aval in zip(values[first:last], step.in_avals[first:last], strict=True)]  # fmt: skip

    def once(state: Any, x: Any) -> Any:
        held, (doubts, ties) = state
        outs, flags = _inner(domain, walk, body, [*consts, *held, *x])
        after = outs[:carries]
        return (after, (doubts | flags[0], ties | flags[1])), outs[carries:]

    start = (carry, (jnp.zeros((), bool), jnp.zeros((), bool)))
    (carry, flags), ys = lax.scan(once, start, list(xs), p["length"], p["reverse"])
    domain.joined(flags)
    return [*carry, *ys]


def _while(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """As long as it is certain to go on; a loop that is never certain to end is in doubt."""
    cond, body = step.subs
    if cond.out_avals[0].shape:
        return list(domain.native(step, values))
    a, b = step.params["cond_nconsts"], step.params["body_nconsts"]
    cond_consts, body_consts = values[:a], values[a : a + b]
    floats = any(aval.kind == "f" for s in cond.steps for aval in s.in_avals)
    most = (FLOAT_TRIPS if floats else COUNTED_TRIPS).value
    state = [_settled(v, aval) for v, aval in zip(values[a + b :], step.out_avals, strict=True)]

    def asked(held: list[Any], flags: Any) -> Any:
        inner = domain.inner()
        (go,) = walk(cond, inner, [*cond_consts, *held])
        on = inner.sure(go)
        return on, _both(flags, inner.flags)

    def more(carry: Any) -> Any:
        _, on, flags, trips = carry
        return on & ~flags[0] & (trips < most)

    def once(carry: Any) -> Any:
        held, _, flags, trips = carry
        held, inner_flags = _inner(domain, walk, body, [*body_consts, *held])
        on, flags = asked(held, _both(flags, inner_flags))
        return held, on, flags, trips + 1

    on, flags = asked(state, domain.flags)
    state, on, flags, _ = lax.while_loop(more, once, (state, on, flags, 0))
    domain.joined(flags)
    domain.doubt(on)
    return list(state)


def _both(a: Any, b: Any) -> Any:
    return a[0] | b[0], a[1] | b[1]


TABLE: dict[str, Rule] = {"cond": _cond, "scan": _scan, "while": _while}

"""Primitives that only move elements: the primitive itself, on midpoints and on radii."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from gradcheck_cli.reals.float64.domain import bound, refused
from gradcheck_cli.reals.float64.pairs import XLA, Pair
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.rules.structure import PICK
from gradcheck_cli.reals.three_valued import YES


def halves(values: list[Any]) -> tuple[list[Any], list[Any]]:
    """All midpoints and all radii; what is not a pair goes with both."""
    mids = [v.mid if isinstance(v, Pair) else v for v in values]
    rads = [v.rad if isinstance(v, Pair) else v for v in values]
    return mids, rads


def _moved(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    mids, rads = halves(values)
    outs = bound(step, mids)
    if step.out_avals[0].kind != "f":
        return list(outs)
    moved = [Pair(m, r) for m, r in zip(outs, bound(step, rads), strict=True)]
    _carry_choice(domain, step, moved)
    return moved


def _carry_choice(domain: Any, step: Any, moved: list[Any]) -> None:
    """A maximum that is spread over its operand's shape is still the one of its operands."""
    if len(step.ins) == len(step.outs) == 1:
        for (winner, source), choice in list(domain.chosen.items()):
            if winner == step.ins[0]:
                domain.chosen[step.outs[0], source] = choice


def _iota(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.out_avals[0].kind != "f":
        return list(domain.native(step, values))
    return [XLA.known(bound(step, values, dtype=jnp.dtype("float64"))[0])]


def _gather(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """What lies outside is the fill value, known exactly (by default NaN: nothing)."""
    operand, indices = values
    fill = step.params.get("fill_value")
    if step.out_avals[0].kind == "b":
        return list(bound(step, values, fill_value=YES if fill is None or fill else 0))
    if step.out_avals[0].kind != "f":
        return list(domain.native(step, values))
    (mid,) = bound(step, [operand.mid, indices])
    (rad,) = bound(step, [operand.rad, indices], fill_value=None if fill is None else 0)
    return [XLA.within(mid, rad)]


def _dynamic_update(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    mids, rads = halves(values)
    if step.out_avals[0].kind != "f":
        return list(bound(step, mids))
    return [Pair(bound(step, mids)[0], bound(step, rads)[0])]


def _pick(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Elements by their number, of all operands in a row (restricted programs only)."""
    numbers = jnp.asarray(step.params["numbers"])

    def picked(parts: list[Any]) -> Any:
        return jnp.concatenate([jnp.ravel(p) for p in parts])[numbers]

    mids, rads = halves(values)
    return [Pair(picked(mids), picked(rads)) if isinstance(values[0], Pair) else picked(mids)]


def _scatter(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.out_avals[0].kind != "f":
        if step.out_avals[0].kind == "b":
            raise refused(step.name)
        return list(domain.native(step, values))
    mids, rads = halves(values)
    return [Pair(scattered(lax.scatter, step, mids), scattered(lax.scatter, step, rads))]


def scattered(scatter: Any, step: Any, values: list[Any]) -> Any:
    """One of `lax`'s scatters with this step's settings (its own body is one of float32)."""
    p = step.params
    return scatter(
        *values,
        p["dimension_numbers"],
        indices_are_sorted=p["indices_are_sorted"],
        unique_indices=p["unique_indices"],
        mode=p["mode"],
    )


_MOVED = [
    "broadcast_in_dim",
    "concatenate",
    "dynamic_slice",
    "expand_dims",
    "pad",
    "reshape",
    "rev",
    "slice",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]
TABLE: dict[str, Rule] = {
    **dict.fromkeys(_MOVED, _moved),
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    "iota": _iota,
    PICK: _pick,
    "scatter": _scatter,
}

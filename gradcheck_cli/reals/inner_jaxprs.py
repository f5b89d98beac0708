"""Where a primitive keeps its inner jaxprs: the one place that knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.extend import core as jex

from gradcheck_cli.contract.errors import CgcheckError

JAX_FOLDER = str(Path(jax.__file__).parent) + os.sep

# Primitives that only call: their body stands for them.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "call_jaxpr",
    "custom_vmap_call": "call",
    "composite": "jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "program_order": "call_jaxpr",
    "xla_metadata_call": "jaxpr",
    "call": "call_jaxpr",
}


class Unexpanded(CgcheckError):
    """What a primitive stands for cannot be traced: `error` came out of the user's own functions inside of it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


# What JAX wraps up as a whole (`custom_root`, from 0.11 on) says itself what stands inside.
_OPAQUE = {"_prim"}

# Primitives whose inner jaxprs run zero or more times.
CONTROL: dict[str, Callable[[Any], Sequence[Any]]] = {
    "cond": lambda p: p["branches"],
    "while": lambda p: (p["cond_jaxpr"], p["body_jaxpr"]),
    "scan": lambda p: (p["jaxpr"],),
    "custom_linear_solve": lambda p: (p["jaxprs"].solve,),
    "reduce": lambda p: (p["jaxpr"],),
    "reduce_window": lambda p: (p["jaxpr"],),
}


def inlined(eqn: Any) -> Any | None:
    """The closed jaxpr that this equation merely calls, if it is a call."""
    key = _CALLS.get(eqn.primitive.name)
    if key is not None:
        return _closed(eqn.params[key])
    return wrapped_up(eqn)


def wrapped_up(eqn: Any) -> Any | None:
    """The closed jaxpr of what JAX has wrapped up as a whole; `Unexpanded` if that cannot be traced."""
    lowered = getattr(eqn.primitive, "to_lojax", None)
    if lowered is None or eqn.params.keys() != _OPAQUE:
        return None
    avals = [variable.aval for variable in eqn.invars]
    try:
        return jax.make_jaxpr(lambda *args: lowered(*args, **eqn.params))(*avals)
    except Exception as error:
        raise Unexpanded(error) from error


def is_jaxs_own(closed: Any) -> bool:
    """Was this function written in JAX? Traced once, it knows of its first caller only."""
    source = getattr(closed.jaxpr.debug_info, "func_filename", None) or ""
    return source.startswith(JAX_FOLDER)


def call_param(name: str) -> str | None:
    """The parameter that holds the body of a calling primitive."""
    return _CALLS.get(name)


def subprograms(eqn: Any) -> list[Any]:
    """The closed jaxprs that this equation controls, in a fixed order."""
    inner = CONTROL.get(eqn.primitive.name)
    return [] if inner is None else [_closed(jaxpr) for jaxpr in inner(eqn.params)]


def held_and_carried(params: dict[str, Any]) -> tuple[int, int]:
    """How many of a scan's operands are constants, and how many are carried from step to step."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    constants, carry, _ = params["ft_in"].unpack()
    return len(list(constants)), len(list(carry))


def _closed(jaxpr: Any) -> Any:
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, ())

"""Where a primitive keeps its inner jaxprs: the one place that knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.extend import core as jex

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
    "call": "call_jaxpr",
}

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
    return None if key is None else _closed(eqn.params[key])


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


def _closed(jaxpr: Any) -> Any:
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, ())

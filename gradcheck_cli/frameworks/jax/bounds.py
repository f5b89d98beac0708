"""Reads beyond the ends of an array: JAX clamps them silently, so a function takes sizes that it does not mean.

What lies beyond the end is read as the last row, and its gradient is lost: there neither function nor rule
means anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_READS = frozenset({"gather", "dynamic_slice"})
_INDEX = re.compile(r"is out of bounds for axis \d+ with size (?P<size>\d+)")
# An index that is made of floats may be inside at one of these.
_NUMBERS = (0.0, 0.5, 1.0)


def reads_beyond(function: Callable[..., Any], avals: Sequence[Any]) -> str:
    """How the function reads beyond the end of an array whatever its floats are; nothing if it does not."""
    with calling_user_code():
        traced = program_of(jax.make_jaxpr(function)(*avals))
    if not _READS & traced.primitives():
        return ""
    checked = checkify.checkify(function, errors=checkify.index_checks)
    said = ""
    for number in _NUMBERS:
        said = _said(checked, avals, number)
        if not said:
            return ""
    return said


def _said(checked: Callable[..., Any], avals: Sequence[Any], number: float) -> str:
    """What is said of the first read beyond an end: beside the rows that there are, what may count them."""
    try:
        with calling_user_code():
            error, _ = checked(*(jnp.full(aval.shape, number, aval.dtype) for aval in avals))
            found = error.get_exception()
    except UserCodeError:  # what cannot be asked in this way
        return ""
    match = _INDEX.search(str(found)) if getattr(found, "prim", "") in _READS else None
    if match is None:
        return ""
    counted = [str(list(aval.shape)) for aval in avals if len(aval.shape) == 1]
    given = f", given {', '.join(counted)}" if counted else ""
    return f"it reads beyond the {match['size']} rows of an array{given}"

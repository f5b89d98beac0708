"""Reads beyond the ends of an array: JAX clamps them silently, so a function takes sizes that it does not mean.

What lies beyond the end is read as the last row, and its gradient is lost: there neither function nor rule
means anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import checkify
from jax.interpreters import partial_eval

from gradcheck_cli.frameworks.shared.equations import inner_jaxprs
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.facts import OPEN_LOOPS
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Numbers = Callable[[Any], Any]

_READS = frozenset({"gather", "dynamic_slice"})
_INDEX = re.compile(r"is out of bounds for axis \d+ with size (?P<size>\d+)")


def reads_beyond(function: Callable[..., Any], avals: Sequence[Any]) -> str:
    """How the function reads beyond the end of an array whatever its floats are; nothing if it does not.

    What says itself what is to be read there (`mode="clip"`, `mode="fill"`) means it. A loop on a condition
    is not asked: it may not end.
    """
    with calling_user_code():
        traced = jax.make_jaxpr(function)(*avals)
    if OPEN_LOOPS & program_of(traced).primitives() or not any(_trusts_its_index(traced.jaxpr)):
        return ""
    said = ""
    try:
        with calling_user_code():
            checks = _Checks(function, avals)
            for numbers in _NUMBERS:
                said = checks.said(numbers)
                if not said:
                    return ""
    except UserCodeError:  # what cannot be asked in this way
        return ""
    return said


def _trusts_its_index(jaxpr: Any) -> Iterator[bool]:
    """For each step, also of inner programs: does it read where it is told, without a word of what is beyond?"""
    for step in jaxpr.eqns:
        name, mode = step.primitive.name, step.params.get("mode")
        yield name == "dynamic_slice" or (name == "gather" and mode is _TRUSTED)
        for inner in inner_jaxprs(step):
            yield from _trusts_its_index(inner)


class _Checks:
    """The part of a program that tells whether its indices are in bounds, traced once."""

    def __init__(self, function: Callable[..., Any], avals: Sequence[Any]) -> None:
        checked = checkify.checkify(function, errors=checkify.index_checks)
        traced, (error, results) = jax.make_jaxpr(checked, return_shape=True)(*avals)
        flags, self._error = jax.tree.flatten(error)
        wanted = [True] * len(flags) + [False] * len(jax.tree.leaves(results))
        program, _ = partial_eval.dce_jaxpr(traced.jaxpr, wanted, instantiate=True)
        self._run = jax.jit(lambda *given: jax.core.eval_jaxpr(program, traced.consts, *given))
        self._avals = avals

    def said(self, numbers: Numbers) -> str:
        """What is said of the first read beyond an end: beside the rows that there are, what may count them."""
        given = [numbers(aval).astype(aval.dtype) for aval in self._avals]
        found = jax.tree.unflatten(self._error, self._run(*given)).get_exception()
        match = _INDEX.search(str(found)) if getattr(found, "prim", "") in _READS else None
        if match is None:
            return ""
        counted = [str(list(aval.shape)) for aval in self._avals if len(aval.shape) == 1]
        rows = f", given {', '.join(counted)}" if counted else ""
        return f"it reads beyond the {match['size']} rows of an array{rows}"


def _all(number: float) -> Numbers:
    return lambda aval: np.full(aval.shape, number)


def _rising(aval: Any) -> Any:
    return np.linspace(0.1, 0.9, math.prod(aval.shape)).reshape(aval.shape)


_TRUSTED = lax.GatherScatterMode.PROMISE_IN_BOUNDS
# An index that is made of floats may be inside at one of these.
_NUMBERS: tuple[Numbers, ...] = (_all(0.0), _rising, _all(1.0))

"""A function of leaves and cotangents walked over the reals, where that has a meaning and a price."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from flint import arb

from gradcheck_cli.frameworks.jax.subject import JaxSubject
from gradcheck_cli.frameworks.shared.tracing import precision
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.enclose import DEAR, enclose
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning, uncovered
from gradcheck_cli.subject.results import Array
from gradcheck_cli.subject.user_code import calling_user_code

_BITS = 40


class OverReals:
    """A function of leaves and cotangents over the reals; traced once, when it is first asked for."""

    def __init__(self, subject: JaxSubject, function: Callable[..., Any]) -> None:
        self._subject, self._function = subject, function

    def __call__(self, point: Sequence[Array], cotangent: Sequence[Array]) -> list[Array] | None:
        """The function's numbers at this row; None without a meaning over the reals, or at too high a cost."""
        try:
            if uncovered(self._program) or by_flint(self._program) > DEAR:
                return None
            row = [np.asarray(a, np.float64)[None] for a in (*point, *cotangent)]
            return [_middles(out[0]) for out in enclose(self._program, row, goal=_BITS).outs]
        except NoRealMeaning:
            return None

    @functools.cached_property
    def _program(self) -> Program:
        with precision(self._subject.dtype):
            avals = (*self._subject.avals, *self._subject.out_avals)
            with calling_user_code():
                jaxpr = jax.make_jaxpr(self._function)(*avals)
        program = program_of(jaxpr)
        with calling_user_code():
            for leaked in (c for c in program.all_constants() if isinstance(c, jax.core.Tracer)):
                np.asarray(leaked)  # raises: a rule kept it from another trace
        return program


def _middles(balls: Any) -> Array:
    """Midpoints, 0 for what may be 0; NaN where there is no number."""
    flat = np.asarray(balls, object).reshape(-1)
    numbers = [_number(ball) for ball in flat]
    return np.array(numbers, np.float64).reshape(np.shape(balls))


def _number(ball: arb) -> float:
    if not ball.is_finite():
        return float("nan")
    return 0.0 if ball.contains(0) else float(ball.mid())

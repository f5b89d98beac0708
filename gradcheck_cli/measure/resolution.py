"""Rows at which a function's floats have nothing left to say: an exponential of a number without its units.

Above 2²³ a float32 number is a whole number of its own roundings. An exponential, a sine or a softmax
of it is luck: what a rule loses there, every program loses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import acb

from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import START_BITS, working
from gradcheck_cli.reals.facts import named
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning, all_slots

Array = np.ndarray[Any, Any]

_SHARP = named(lambda facts: facts.sharp)


def largest_exponents(program: Program, args: Sequence[Array]) -> Array:
    """For each row the largest number of which an exponential or a sine is taken."""
    count = len(args[0])
    largest = np.zeros(count)
    slots = [step.ins[0] for step in program.steps if step.name in _SHARP]
    if not slots:
        return largest
    with working(START_BITS):
        try:
            values = all_slots(program, Balls(count), [exact(a) for a in args])
        except NoRealMeaning:
            return largest
        for slot in dict.fromkeys(slots):
            balls = np.asarray(values[slot])
            parts = [_real(balls), _imaginary(balls)] if _is_complex(balls) else [balls]
            sizes = np.max([np.abs(as_floats(part)) for part in parts], axis=0)
            sizes[~np.isfinite(sizes)] = 0
            largest = np.maximum(largest, sizes.reshape(len(sizes), -1).max(axis=1, initial=0))
    return largest


def _is_complex(balls: Array) -> bool:
    return any(isinstance(ball, acb) for ball in balls.reshape(-1)[:1])


_real: Callable[[Array], Array] = np.frompyfunc(lambda ball: ball.real, 1, 1)
_imaginary: Callable[[Array], Array] = np.frompyfunc(lambda ball: ball.imag, 1, 1)

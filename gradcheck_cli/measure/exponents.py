"""Arguments to which other arguments are raised: few numbers stay in the range of floats at the hundredth power."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.contract.limits import EXPONENT
from gradcheck_cli.measure.as_they_are import steps_with_arguments
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.reals.program import Program

_POWER = "pow"


def of_no_exponent(m: Measurements, place: int) -> Array:
    """Rows at which this argument is an exponent, and larger than any."""
    if place not in _exponents(m):
        return np.zeros(m.count, bool)
    size = np.abs(m.points[place].reshape(m.count, -1))
    return np.asarray((size > EXPONENT.value).any(axis=1))


@derived
def _exponents(m: Measurements) -> frozenset[int]:
    """The places of the arguments that are exponents in what gives the value."""
    program = m.subject.traces().primal
    return frozenset() if program is None else _raised_to(program, len(m.components(VALUES)))


def _raised_to(program: Program, values: int) -> frozenset[int]:
    """Arguments that a value of the program is raised to: as they are, or with a number more, as `power - 1`."""
    # `10 ** x` is a function of x like any other.
    return frozenset(
        of[step.ins[1]]
        for step, of in steps_with_arguments(program, values)
        if step.name == _POWER and step.ins[1] in of and step.ins[0] not in program.constants
    )

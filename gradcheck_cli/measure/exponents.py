"""Arguments to which other arguments are raised: few numbers stay in the range of floats at the hundredth power."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.contract.limits import EXPONENT
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.reals.facts import FACTS, Facts, Law
from gradcheck_cli.reals.program import Program, Slot, Step, alive

_SUMS = frozenset({"add", "add_any", "sub", "neg"})
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
    of = {slot: place for place, slot in enumerate(program.inputs)}
    found = set()
    for step in alive(program.steps, program.outputs[:values]):
        # `10 ** x` is a function of x like any other.
        if step.name == _POWER and step.ins[1] in of and step.ins[0] not in program.constants:
            found.add(of[step.ins[1]])
        numbers = [slot for slot in step.ins if slot not in program.constants]
        if _is_kept(step, numbers) and numbers[0] in of:
            of |= dict.fromkeys(step.outs, of[numbers[0]])
    return frozenset(found)


def _is_kept(step: Step, numbers: Sequence[Slot]) -> bool:
    """Is it one argument that this step only moves, casts, or adds a number to?"""
    facts = FACTS.get(step.name, Facts(Law.SPECIAL))
    moved = facts.moves or facts.law in (Law.IDENTITY, Law.CAST) or step.name in _SUMS
    return len(numbers) == 1 and moved

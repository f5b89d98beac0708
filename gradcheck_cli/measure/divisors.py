"""Arguments that divide as they stand: who writes `freq / centre` means no `centre` of 0.

A quotient whose numerator vanishes with the argument, `sin(x) / x`, may have a value there, and is
no such division; that of `(x - y) / x` is `-y` there. Nor is `exp(-1 / x**2)`, where it has a value in floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradcheck_cli.measure.components import VALUES, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.reals.facts import FACTS, Facts, Law
from gradcheck_cli.reals.program import Program, Slot, Step, alive

_ZERO_AT_ZERO = frozenset({"abs", "mul", "neg", "sqrt", "square"})
_SUMS = frozenset({"add", "add_any", "sub"})
_NOTHING: frozenset[int] = frozenset()


def divided_by_zero(m: Measurements, place: int) -> Array:
    """Rows at which this argument is 0 and divides another one, or a number where no number comes out."""
    divisors = _divisors(m)
    zero = np.asarray((m.points[place].reshape(m.count, -1) == 0).any(axis=1))
    if place in divisors.of_others - divisors.compared:
        return zero
    divides = place in divisors.of_others | divisors.of_numbers
    return zero & _valueless(m) if divides else np.zeros(m.count, bool)


@derived
def _valueless(m: Measurements) -> Array:
    """Rows at which the function itself gives no number in floats."""
    lost = [~np.isfinite(columns(floats.rule_value, m.count)) for floats in m.floats.values()]
    return np.asarray(np.any([of_mode.any(axis=1) for of_mode in lost], axis=0))


@derived
def _divisors(m: Measurements) -> _Walk:
    walk = _Walk()
    program = m.subject.traces().primal
    if program is not None:
        walk.through(program, len(m.components(VALUES)))
    return walk


@dataclass
class _Walk:
    """The places of the arguments that divide in what gives the value."""

    of_others: set[int] = field(default_factory=set)
    of_numbers: set[int] = field(default_factory=set)
    # With a constant, 0 mostly: then the function itself says what it is there.
    compared: set[int] = field(default_factory=set)
    _rests_on: dict[Slot, frozenset[int]] = field(default_factory=dict)
    # Those of which an element that is 0 may make one of a slot 0, whatever the other arguments are.
    _vanishes_with: dict[Slot, frozenset[int]] = field(default_factory=dict)
    # The arguments of which an element that is 0 makes one of a slot 0.
    _zero_with: dict[Slot, frozenset[int]] = field(default_factory=dict)

    def through(self, program: Program, values: int) -> None:
        """Look at each step that a value rests on."""
        self._rests_on = {slot: frozenset({place}) for place, slot in enumerate(program.inputs)}
        self._zero_with, self._vanishes_with = dict(self._rests_on), dict(self._rests_on)
        for step in alive(program.steps, program.outputs[:values]):
            self._look_at(step)
            rests = _NOTHING.union(*(self._rests_on.get(slot, _NOTHING) for slot in step.ins))
            zero, vanishes = self._zeros_of(step, program), self._vanishing(step)
            self._rests_on.update(dict.fromkeys(step.outs, rests))
            self._zero_with.update(dict.fromkeys(step.outs, zero))
            self._vanishes_with.update(dict.fromkeys(step.outs, vanishes))

    def _look_at(self, step: Step) -> None:
        if FACTS.get(step.name, Facts(Law.SPECIAL)).law is Law.COMPARISON:
            self.compared.update(*(self._zero_with.get(slot, _NOTHING) for slot in step.ins))
        above, vanishing, below = _NOTHING, _NOTHING, step.ins[-1:]
        if step.name == "div":
            above = self._rests_on.get(step.ins[0], _NOTHING)
            vanishing = self._vanishes_with.get(step.ins[0], _NOTHING)
        elif not (step.name == "rsqrt" or (step.name == "integer_pow" and step.params["y"] < 0)):
            return
        divisors = self._zero_with.get(below[0], _NOTHING) - vanishing
        (self.of_others if above else self.of_numbers).update(divisors)

    def _vanishing(self, step: Step) -> frozenset[int]:
        """Of a sum, those that may make it 0: not one that is 0 itself beside what rests on others alone, as in `y - x`.

        `c * exp(x) - c` may, though its other side rests on `c` alone.
        """
        if step.name not in _SUMS:
            return _NOTHING.union(*(self._vanishes_with.get(s, _NOTHING) for s in step.ins))
        rests = _NOTHING.union(*(self._rests_on.get(slot, _NOTHING) for slot in step.ins))
        return frozenset(a for a in rests if not self._is_left_alone(a, step.ins))

    def _is_left_alone(self, argument: int, sides: Sequence[Slot]) -> bool:
        """Is each side that rests on the argument 0 with it, beside one that rests on others alone?"""
        with_it = [s for s in sides if argument in self._rests_on.get(s, _NOTHING)]
        without = [s for s in sides if s not in with_it and self._rests_on.get(s, _NOTHING)]
        zero = (argument in self._zero_with.get(slot, _NOTHING) for slot in with_it)
        return bool(without) and all(zero)

    def _zeros_of(self, step: Step, program: Program) -> frozenset[int]:
        facts = FACTS.get(step.name, Facts(Law.SPECIAL))
        power = step.name == "integer_pow" and step.params["y"] > 0
        same = facts.moves or facts.law in (Law.IDENTITY, Law.CAST)
        if not (same or power or step.name in _ZERO_AT_ZERO):
            return _NOTHING
        numbers = [slot for slot in step.ins if slot not in program.constants]
        return _NOTHING.union(*(self._zero_with.get(slot, _NOTHING) for slot in numbers))

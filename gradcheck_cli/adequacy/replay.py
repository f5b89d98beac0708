"""Programs with a change, run in float64: only what comes after the change is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.adequacy.plain_steps import PLAIN_RULES
from gradcheck_cli.contract.limits import CHANGE_SECONDS
from gradcheck_cli.reals.floats.domain import Floats, Meter, OverBudget
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning, apply

Array = np.ndarray[Any, Any]

_LONGER, _LARGER = 4, 16  # times the unchanged program's trips and arrays (SEMANTICS H)
_FIRST_VALUES, _FIRST_NUMBERS = 200_000, 5_000_000
# Nanoseconds that a walk takes for a value and for a number in it, about.
_PER_VALUE, _PER_NUMBER = 20_000, 5
_FEWEST = 6  # changes
# What numpy and JAX raise where shapes do not meet.
_MISFIT = (ValueError, IndexError, TypeError, OverflowError)


class NotReplayed(Exception):
    """A program has no walk in plain floats; the message says why."""


@dataclass(slots=True)
class Replay:
    """The unchanged program's values at some rows, by slot."""

    program: Program
    args: Sequence[Array]
    slots: list[Any]
    meter: Meter

    @property
    def outputs(self) -> list[Array]:
        return [_full(self.slots[s], self.batch) for s in self.program.outputs]

    @property
    def batch(self) -> int:
        return len(self.args[0])

    def affordable(self, most: int) -> int:
        """How many changes are tried: all of them, unless the program is long or large."""
        cost = self.meter.values * _PER_VALUE + self.meter.numbers * _PER_NUMBER
        budget = CHANGE_SECONDS.value * 1e9
        return min(most, max(_FEWEST, int(budget / max(cost, _PER_VALUE))))

    def changed(self, program: Program) -> list[Array] | None:
        """The outputs of a changed program; None where it raises, grows, or has other shapes."""
        slots: list[Any] = [*self.slots, *(None for _ in range(program.size - len(self.slots)))]
        domain = self._domain()
        unchanged = {id(step) for step in self.program.steps}
        other: set[int] = set()
        for slot in program.constants.keys() - self.program.constants.keys():
            slots[slot] = domain.constant(program.constants[slot])
        try:
            with np.errstate(all="ignore"):
                for step in program.steps:
                    if id(step) in unchanged and other.isdisjoint(step.ins):
                        continue
                    outs = apply(step, domain, [slots[i] for i in step.ins])
                    for slot, value in zip(step.outs, outs, strict=True):
                        slots[slot] = domain.kept(value)
                        other.add(slot)
        except (*_MISFIT, NoRealMeaning, OverBudget):
            return None
        results = [np.asarray(slots[s]) for s in program.outputs]
        shapes = [aval.shape for aval in program.out_avals]
        if any(r.shape[1:] != shape for r, shape in zip(results, shapes, strict=True)):
            return None
        return [_full(r, self.batch) for r in results]

    def _domain(self) -> Floats:
        before = self.meter
        meter = Meter(_LONGER * before.values + 100, _LARGER * max(before.largest, 64))
        return Floats(self.batch, meter, rules=PLAIN_RULES)


def replay(program: Program, args: Sequence[Array]) -> Replay:
    """The program's values at these rows; `NotReplayed` if no walk covers it."""
    meter = Meter(_FIRST_VALUES, _FIRST_NUMBERS)
    domain = Floats(len(args[0]), meter, rules=PLAIN_RULES)
    slots: list[Any] = [None] * program.size
    for slot, value in program.constants.items():
        slots[slot] = domain.constant(value)
    for slot, array in zip(program.inputs, args, strict=True):
        slots[slot] = np.asarray(array, np.float64)
    try:
        with np.errstate(all="ignore"):
            for step in program.steps:
                outs = apply(step, domain, [slots[i] for i in step.ins])
                for slot, value in zip(step.outs, outs, strict=True):
                    slots[slot] = domain.kept(value)
    except NoRealMeaning as error:
        raise NotReplayed(f"`{error.name}` is not computed in plain float64") from None
    except OverBudget:
        raise NotReplayed("it is too long or too large") from None
    except _MISFIT as error:  # a factorization that does not converge
        raise NotReplayed(str(error)) from None
    return Replay(program, args, slots, meter)


def _full(value: Any, batch: int) -> Array:
    array = np.asarray(value)
    return np.broadcast_to(array, (batch, *array.shape[1:]))

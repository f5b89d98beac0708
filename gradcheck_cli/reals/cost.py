"""What a walk will cost, known before it is paid. Counts, not clocks: the same on every machine."""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

from gradcheck_cli.reals.facts import FACTS, Effort
from gradcheck_cli.reals.program import Program, Step

_MOVES_IN_A_STEP = 8  # an element that is only moved costs next to nothing
_TRIPS = 16  # of a loop whose length nobody knows

# All in steps of flint. Numpy takes so many for each call, and a share of one for each number.
_PAIRS_STEP = 300
_PAIRS_SHARE = 5
# So many cost XLA to compile one step of a program.
_COMPILED_STEP = 120_000
_COMPILED_ANY = 1_500_000

_KNOWN: WeakKeyDictionary[Program, tuple[int, int]] = WeakKeyDictionary()


def by_flint(program: Program) -> int:
    """Steps of flint for one row."""
    return _counts(program)[0]


def by_pairs(program: Program, rows: int) -> int:
    """Steps of flint that all rows would cost in pairs, by numpy."""
    return _PAIRS_STEP * calls(program) + by_flint(program) * rows // _PAIRS_SHARE


def worth_pairs(program: Program, rows: int) -> bool:
    """Would flint take longer for all rows than numpy, which takes some time for each step?"""
    return by_flint(program) * rows > by_pairs(program, rows)


def worth_compiling(program: Program, rows: int) -> bool:
    """Would numpy take longer for all rows than XLA takes to compile the program?"""
    compiled = _COMPILED_ANY + _COMPILED_STEP * len(program.all_steps())
    return by_pairs(program, rows) > compiled


def calls(program: Program) -> int:
    """Steps of one walk, those of loops as often as they run."""
    return _counts(program)[1]


def _counts(program: Program) -> tuple[int, int]:
    """Both counts: a program is walked often, and counted once."""
    if program not in _KNOWN:
        walked = (
            _trips(step) * sum(map(calls, step.subs)) if step.subs else 1 for step in program.steps
        )
        _KNOWN[program] = sum(map(_step, program.steps)), sum(walked)
    return _KNOWN[program]


def _step(step: Step) -> int:
    if step.subs:
        return _trips(step) * sum(map(by_flint, step.subs))
    row = FACTS.get(step.name)
    if row is not None and row.moves:
        return sum(_size(aval.shape) for aval in step.out_avals) // _MOVES_IN_A_STEP
    numbers = max(_size(aval.shape) for aval in (*step.in_avals, *step.out_avals))
    if step.name == "dot_general":
        return _size(step.out_avals[0].shape) * _contracted(step)
    if step.name == "conv_general_dilated":
        spec = step.params["dimension_numbers"].rhs_spec
        kernel = [step.in_avals[1].shape[d] for d in spec[1:]]
        return _size(step.out_avals[0].shape) * _size(tuple(kernel))
    return numbers * (row.effort if row else Effort.PLAIN)


def _trips(step: Step) -> int:
    return (
        int(step.params["length"]) if step.name == "scan" else 1 if step.name == "cond" else _TRIPS
    )


def _contracted(step: Step) -> int:
    ((left, _), _) = step.params["dimension_numbers"]
    return _size(tuple(step.in_avals[0].shape[d] for d in left))


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)

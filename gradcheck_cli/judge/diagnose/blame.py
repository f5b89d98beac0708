"""Which operation loses the digits: the first whose own error, once repaired, repairs the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import LEAST_LOSS
from gradcheck_cli.judge.diagnose.float_slots import (
    bits_beside,
    format_after,
    in_words,
    least_bits,
    out_of_range,
)
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.facts import named
from gradcheck_cli.reals.float_trace import Shadow, shadow
from gradcheck_cli.reals.program import Program, Step
from gradcheck_cli.reals.source_spot import Spot, spot
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.results import EAGER, OP_BY_OP

_BITS = 512
_MOST_TRIED = 48
_SUMS = named(lambda facts: facts.sums)


@dataclass(frozen=True, slots=True)
class Blame:
    """The place and what happens there, in words."""

    spot: Spot | None
    text: str


def find_blame(failure: Failure, m: Measurements) -> Blame | None:
    """The operation to blame; None where the failure shows only when it is compiled, or none explains it."""
    traces = m.subject.traces()
    program = traces.rule if traces.rule is not None else traces.primal
    if (
        program is None
        or not m.sources.over_reals
        or not {EAGER, OP_BY_OP}.intersection(failure.modes)
    ):
        return None
    row = failure.row
    try:
        run = shadow(program, [a[row] for a in (*m.points, *m.cotangents)], _BITS)
    except NoRealMeaning:  # a step that cannot be walked in these numbers explains nothing
        return None
    if run is None:
        return None
    aim = _Aim(program, len(m.cotangents), failure)
    before = aim.bits(run.outputs(), run)
    full = float(m.fmt.digits)
    for index, lost in _suspects(run):
        after = aim.bits(run.repaired(index), run)
        if after - before > max(LEAST_LOSS.value, (full - before) / 2):
            return _blame(run, program.steps[index], lost, in_rule=failure.what != VALUES)
    return None


class _Aim:
    """The failing number among the outputs."""

    def __init__(self, program: Program, outputs: int, failure: Failure) -> None:
        numbers = range(outputs) if failure.what == VALUES else range(outputs, len(program.outputs))
        component = failure.component
        for number in numbers:
            size = int(np.prod(program.out_avals[number].shape, dtype=int))
            if component < size:
                break
            component -= size
        self._number, self._component = number, component

    def bits(self, outputs: list[Any], run: Shadow) -> float:
        slot = run.program.outputs[self._number]
        bits = bits_beside(outputs[self._number], run.balls[slot])
        return float(bits.reshape(-1)[self._component])


def _suspects(run: Shadow) -> Iterator[tuple[int, float]]:
    """Steps whose results are worse than what went in, with the bits lost there."""
    tried = 0
    for index, step in enumerate(run.program.steps):
        into = min((least_bits(run, slot) for slot in step.ins), default=None)
        out = min((least_bits(run, slot) for slot in step.outs), default=None)
        if into is None or out is None or into - out < LEAST_LOSS.value:
            continue
        yield index, into - out  # infinite where nothing inexact went in
        tried += 1
        if tried >= _MOST_TRIED:
            return


def _blame(run: Shadow, step: Step, lost: float, *, in_rule: bool) -> Blame:
    """An input that left the range of its format explains more than the step that met it.

    What the function computes and the rule once more is to blame where it stands `in_rule`, if that failed.
    """
    origin = step
    while (earlier := out_of_range(run, origin.ins)) is not None:
        producer = run.producer(earlier)
        if producer is None:
            break
        origin = producer
        if out_of_range(run, origin.ins) is None:
            return Blame(_spot(origin, in_rule), in_words(run, origin))
    digits = format_after(run, step).digits
    count = round(min(float(digits), lost))
    verb = "cancels" if step.name in _SUMS else f"(`{step.name}`) is imprecise"
    return Blame(_spot(step, in_rule), f"{verb}: {count} of {digits} bits lost")


def _spot(step: Step, in_rule: bool) -> Spot | None:
    last = spot(step.last, PLUMBING) if in_rule else None
    return last or spot(step, PLUMBING)

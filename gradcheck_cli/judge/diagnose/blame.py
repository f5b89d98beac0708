"""Which operation loses the digits: the first whose own error, once repaired, repairs the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import LEAST_LOSS
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.measure.components import VALUES, as_floats
from gradcheck_cli.measure.correct_bits import correct_bits
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.facts import named
from gradcheck_cli.reals.float_trace import Shadow, shadow, single
from gradcheck_cli.reals.program import Program, Step
from gradcheck_cli.reals.source_spot import Spot, spot
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.results import EAGER, OP_BY_OP

Array = np.ndarray[Any, Any]

_BITS = 512
_MOST_TRIED = 48
_SUMS = named(lambda facts: facts.sums)


@dataclass(frozen=True, slots=True)
class Blame:
    """The place and what happens there, in words."""

    spot: Spot | None
    text: str


def find_blame(failure: Failure, m: Measurements) -> Blame | None:
    """Only what shows op by op can be pinned on one operation; under jit alone, nothing is said."""
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
            return _blame(run, program.steps[index], lost)
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
        return float(_correct(outputs[self._number], run.balls[slot]).reshape(-1)[self._component])


def _correct(floats: Any, balls: Any) -> Array:
    """Correct bits of each float; one that is beyond the format's range counts as what it stands for."""
    got = np.asarray(floats)
    fmt = format_of(str(got.dtype))
    got = got.astype(np.float64)
    truth = as_floats(single(balls))
    overflows = (np.abs(truth) > fmt.max) & np.isinf(got) & (np.sign(got) == np.sign(truth))
    underflows = (np.abs(truth) < fmt.tiny) & (np.abs(got) <= fmt.tiny)
    excused = overflows | underflows | np.isnan(truth)
    return np.where(excused, float(fmt.digits), correct_bits(got, truth, fmt))


def _suspects(run: Shadow) -> Iterator[tuple[int, float]]:
    """Steps whose results are worse than what went in, with the bits lost there."""
    tried = 0
    for index, step in enumerate(run.program.steps):
        into = min((_worst(run, slot) for slot in step.ins), default=None)
        out = min((_worst(run, slot) for slot in step.outs), default=None)
        if into is None or out is None or into - out < LEAST_LOSS.value:
            continue
        yield index, into - out  # infinite where nothing inexact went in
        tried += 1
        if tried >= _MOST_TRIED:
            return


def _worst(run: Shadow, slot: int) -> float:
    balls = run.balls[slot]
    if (
        not isinstance(balls, np.ndarray)
        or balls.dtype != object
        or not _is_float(run.floats[slot])
    ):
        return np.inf
    bits = _correct(run.floats[slot], balls)
    return float(bits.min(initial=np.inf))


def _is_float(value: Any) -> bool:
    return getattr(value, "dtype", np.dtype(int)).kind == "f"


def _blame(run: Shadow, step: Step, lost: float) -> Blame:
    """An input that left the range of its format explains more than the step that met it."""
    origin = step
    while (earlier := _out_of_range(run, origin.ins)) is not None:
        producer = run.producer(earlier)
        if producer is None:
            break
        origin = producer
        if _out_of_range(run, origin.ins) is None:
            return Blame(spot(origin, PLUMBING), _range_text(run, origin))
    digits = _format(run, step).digits
    count = round(min(float(digits), lost))
    verb = "cancels" if step.name in _SUMS else f"(`{step.name}`) is imprecise"
    return Blame(spot(step, PLUMBING), f"{verb}: {count} of {digits} bits lost")


def _out_of_range(run: Shadow, slots: tuple[int, ...]) -> int | None:
    """A slot with an infinity or a zero where the truth is neither."""
    for slot in slots:
        if slot in run.program.constants or not _is_float(run.floats[slot]):
            continue
        if _strays(run, slot).any():
            return slot
    return None


def _strays(run: Shadow, slot: int) -> Array:
    got, truth = np.asarray(run.floats[slot]).astype(np.float64), as_floats(single(run.balls[slot]))
    known = ~np.isnan(truth)
    vanished = np.array([not b.contains(0) for b in run.balls[slot].reshape(-1)]).reshape(got.shape)
    return np.asarray(known & ((np.isinf(got) & ~np.isinf(truth)) | ((got == 0) & vanished)))


def _range_text(run: Shadow, step: Step) -> str:
    slot = next(s for s in step.outs if _strays(run, s).any())
    at = int(np.flatnonzero(_strays(run, slot).reshape(-1))[0])
    got = float(np.asarray(run.floats[slot]).reshape(-1)[at])
    exact = run.balls[slot].reshape(-1)[at].str(3, radius=False)
    name = _format(run, step).name
    how = "overflows" if np.isinf(got) else "underflows to 0"
    return f"{how} in {name}: it is {exact}"


def _format(run: Shadow, step: Step) -> Format:
    slot = next(slot for slot in step.outs if _is_float(run.floats[slot]))
    return format_of(str(run.floats[slot].dtype))

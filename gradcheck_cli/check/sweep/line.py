"""A line: one subject along its one argument, with all that is computed once for it."""

from __future__ import annotations

from dataclasses import dataclass

from gradcheck_cli.check.sweep.jets import Jet, jet_of
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import Shaped, Subject, Traced
from gradcheck_cli.subject.user_code import UserCodeError


@dataclass(frozen=True, slots=True)
class Line:
    """One subject along its one argument."""

    subject: Subject
    rungs: Sources
    jet: Jet | None  # none: it has no program of numbers alone
    fmt: Format
    seed: int

    @property
    def weights(self) -> list[float]:
        return _weights(self.subject)


def line_along(subject: Subject, rungs: Sources, seed: int) -> Line:
    """The line of a subject that takes one number."""
    return Line(subject, rungs, _jet(subject), format_of(subject.dtype), seed)


def _jet(subject: Traced) -> Jet | None:
    """None where single points have to do."""
    program = subject.traces().primal
    if program is None:
        return None
    try:
        return jet_of(program, _weights(subject), subject.dtype)
    except (NoRealMeaning, UserCodeError):  # it cannot be differentiated thrice
        return None


def _weights(subject: Shaped) -> list[float]:
    return [float(c) for c in cotangent(BASE, subject.outputs)]

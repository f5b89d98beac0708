"""Subjects in which an axis that is one block of a kernel is several: what a ragged last one does, and what programs share."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.check.fitting import fitting
from gradcheck_cli.check.request import Request
from gradcheck_cli.infer.richer import over_blocks
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Cut
from gradcheck_cli.subject.user_code import UserCodeError

_MOST_AXES = 3  # that are made several blocks long, one after the other
_MOST_STEPS = 1000  # of function and rule, where arrays are cut whatever their axes
_MOST_GROWN = 4  # lengths of an axis whose block grows with it
_MOST_PROGRAMS = 24  # of a kernel each of whose programs is walked by itself


@dataclass(frozen=True, slots=True)
class InBlocks:
    """The subjects, and a call of several blocks at which the rule is surely at fault."""

    subjects: tuple[Subject, ...] = ()
    broken: tuple[Signature, RuleError] | None = None


def in_blocks(request: Request, last: Subject, hints: Hints) -> InBlocks:
    """For each axis that is one block for the last subject's kernels, one in which it is several."""
    whole = list(dict.fromkeys(c for c in _cuts(last) if 1 < c.size <= c.block))[:_MOST_AXES]
    found: list[Subject] = []
    for cut in whole:
        try:
            there = _over_blocks(request, last, hints, cut)
        except _AtFault as fault:
            return InBlocks(tuple(found), (fault.signature, fault.error))
        found += [] if there is None else [there]
        if there is not None and _is_cut_whatever_its_axes(there):
            break  # along another axis it would be cut in the same way
    return InBlocks(tuple(found))


class _AtFault(Exception):
    """The rule is wrong at a call, whatever its shapes are: its kernel leaves an array, or a part of one unwritten."""

    def __init__(self, signature: Signature, error: RuleError) -> None:
        super().__init__(error.message)
        self.signature, self.error = signature, error


def _over_blocks(request: Request, last: Subject, hints: Hints, cut: Cut) -> Subject | None:
    """The subject of several blocks of which the kernels leave nothing unwritten: else all they give there is NaN.

    A block that grows with its axis, up to an end of its own, is followed until it ends.
    """
    grown: Cut | None = cut
    for _ in range(_MOST_GROWN):
        if grown is None:
            return None
        there, grown = _over(request, last, hints, grown)
        if there is not None:
            return there
    return None


def _over(
    request: Request, last: Subject, hints: Hints, cut: Cut
) -> tuple[Subject | None, Cut | None]:
    """The subject of several blocks; else the cut with the block that grew until it took the longer axis whole."""
    grown: Cut | None = None
    for there in fitting(request, last, over_blocks(last.signature, hints, cut)):
        if max((kernel.programs for kernel in there.kernels), default=1) > _MOST_PROGRAMS:
            continue
        gives_numbers = _gives_numbers(there)  # what its rule launches is known from then on
        longer = [c for c in _cuts(there) if c.size in cut.longer and cut.block <= c.block]
        along_an_axis = any(c.block < c.size for c in longer)
        if gives_numbers and (along_an_axis or _is_cut_whatever_its_axes(there)):
            return there, None
        whole = [c.block for c in longer if c.size <= c.block]
        if grown is None and whole:
            grown = Cut(cut.size, min(whole))
    return None, grown


def _is_cut_whatever_its_axes(there: Subject) -> bool:
    """Are its arrays taken as they lie in memory, by several programs of each kernel, in not too many steps?"""
    kernels = there.kernels
    if not kernels or _cuts(there) or any(kernel.programs <= 1 for kernel in kernels):
        return False
    traces = there.traces()
    programs = (program for program in (traces.primal, traces.rule) if program is not None)
    return sum(len(program.steps) for program in programs) <= _MOST_STEPS


def _gives_numbers(there: Subject) -> bool:
    """Does the function give numbers at ones, and its rule leave nothing unwritten?"""
    with suppress(Rejected, RuleError, UserCodeError):
        try:
            there.traces()
        except RuleError as error:
            if error.certain:
                raise _AtFault(there.signature, error) from None
            raise
        values = there.primal_values([np.ones((1, *leaf.shape)) for leaf in there.leaves])
        return all(np.isfinite(v).all() for v in values)
    return False


def _cuts(subject: Subject) -> list[Cut]:
    return [cut for kernel in subject.kernels for cut in kernel.cuts]

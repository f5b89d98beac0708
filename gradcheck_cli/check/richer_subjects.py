"""Subjects that are richer than those at hand: larger sizes, another table, axes past a late slice, several blocks of a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.adequacy.change import Change
from gradcheck_cli.adequacy.possible import possible, reached
from gradcheck_cli.check.flat import is_flat
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.richer import larger, over_blocks, past_slices, with_other_entries
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Cut
from gradcheck_cli.subject.user_code import UserCodeError

_MOST_TRIES = 5
_MOST_AXES = 3  # that are made several blocks long, one after the other
_MOST_STEPS = 1000  # of function and rule, where arrays are cut whatever their axes
_MOST_GROWN = 4  # lengths of an axis whose block grows with it
_MOST_PROGRAMS = 24  # of a kernel each of whose programs is walked by itself


@dataclass(frozen=True, slots=True)
class Richer:
    """Richer subjects, and a call of several blocks at which the rule is surely at fault."""

    subjects: Sequence[Subject] = ()
    broken: tuple[Signature, RuleError] | None = None


def richer_subjects(
    request: Request, subjects: Sequence[Subject], hints: Hints, outcome: GradientOutcome
) -> Richer:
    """A subject of larger sizes and one with another table, which function and rule take, if these show more.

    A function without steps that does not move at all does so at larger sizes: of two numbers, a z-score is ±1.
    None where the rule is wrong already: there is nothing to add.
    """
    if outcome.is_wrong:
        return Richer()
    last, open_ = subjects[-1], outcome.showings.unseen
    by_table = {table: [c for c in open_ if c.table == table] for table in (c.table for c in open_)}
    with request.progress.timing("adequacy"):
        sizes = list(itertools.islice(larger(last.signature, hints), _MOST_TRIES))
        sized = _first(request, last, sizes, outcome.showings.degenerate)
        if not sized and is_flat(last, outcome):
            sized = list(itertools.islice(_fitting(request, last, sizes), 1))
        others = [
            subject
            for table, changes in by_table.items()
            if table is not None
            for subject in _first(
                request, last, with_other_entries(last.signature, table, hints), changes
            )
        ]
        late = _past_slices(request, last, hints)
        blocks = _in_blocks(request, last, hints)
        return Richer([*sized, *others, *late, *blocks.subjects], blocks.broken)


def _past_slices(request: Request, last: Subject, hints: Hints) -> list[Subject]:
    """The subject with an axis in which all slices lie, where one of the last subject's takes nothing: it may be of any length."""
    if not _takes_nothing(last):
        return []
    longer = _fitting(request, last, past_slices(last.signature, hints))
    return list(itertools.islice((there for there in longer if not _takes_nothing(there)), 1))


def _takes_nothing(subject: Subject) -> bool:
    """Has the function an empty array on its way, and none among its arguments?"""
    program = subject.traces().primal
    if program is None or subject.signature.is_empty:
        return False
    return any(0 in aval.shape for step in program.all_steps() for aval in step.out_avals)


def _in_blocks(request: Request, last: Subject, hints: Hints) -> Richer:
    """For each axis that is one block for the last subject's kernels, one in which it is several."""
    whole = list(dict.fromkeys(c for c in _cuts(last) if 1 < c.size <= c.block))[:_MOST_AXES]
    found: list[Subject] = []
    for cut in whole:
        try:
            there = _over_blocks(request, last, hints, cut)
        except _AtFault as fault:
            return Richer(found, (fault.signature, fault.error))
        found += [] if there is None else [there]
        if there is not None and _is_cut_whatever_its_axes(there):
            break  # along another axis it would be cut in the same way
    return Richer(found)


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
    for there in _fitting(request, last, over_blocks(last.signature, hints, cut)):
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


def _first(
    request: Request, last: Subject, signatures: Iterable[Signature], changes: Sequence[Change]
) -> list[Subject]:
    """The subject of the first signature that would show one of the changes."""
    if not changes:
        return []
    for there in _fitting(request, last, itertools.islice(signatures, _MOST_TRIES)):
        try:
            shown = possible(changes, there) or reached(changes, there)
        except (Rejected, RuleError, UserCodeError):
            continue
        if shown:
            return [there]
    return []


def _fitting(request: Request, last: Subject, signatures: Iterable[Signature]) -> Iterator[Subject]:
    """The subjects of those signatures that function and rule take."""
    for signature in signatures:
        with suppress(Rejected, RuleError, UserCodeError):
            yield fitted(request.gradient, signature, last.dtype)

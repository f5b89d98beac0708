"""Subjects richer than those at hand: larger sizes, another table, moved bounds, axes past a late slice, several pieces, several blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.adequacy.change import Change, Kind
from gradcheck_cli.adequacy.possible import possible, reached
from gradcheck_cli.check.fitting import REFUSED, fitting
from gradcheck_cli.check.flat import is_flat
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.several_blocks import in_blocks
from gradcheck_cli.infer.richer import (
    in_pieces,
    larger,
    past_bounds,
    past_slices,
    wider,
    with_other_entries,
)
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.reals.cost import calls
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import RuleError

_MOST_TRIES = 5
_MOST_BOUNDS = 2  # that are moved
_MOST_STILL = 3  # that are tried wider


@dataclass(frozen=True, slots=True)
class Richer:
    """Richer subjects, and a call of several blocks at which the rule is surely at fault."""

    subjects: Sequence[Subject] = ()
    broken: tuple[Signature, RuleError] | None = None
    one_piece: tuple[int, ...] = ()  # how long the pieces are of which every axis is one


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
            sized = list(itertools.islice(fitting(request, last, sizes), 1))
        others = [
            subject
            for table, changes in by_table.items()
            if table is not None
            for subject in _first(
                request, last, with_other_entries(last.signature, table, hints), changes
            )
        ]
        bounds = [
            subject
            for change in open_
            if change.kind is Kind.BRANCH
            for subject in _first(
                request, last, past_bounds(last.signature, _condition(change), hints), [change]
            )
        ]
        late = _past_slices(request, last, hints)
        pieces = _in_pieces(request, last, hints)
        blocks = in_blocks(request, last, hints)
        awake = _awake(request, subjects, hints, outcome)
        more = [*sized, *others, *bounds[:_MOST_BOUNDS], *late, *pieces.subjects, *blocks.subjects, *awake]  # fmt: skip
        return Richer(more, blocks.broken, pieces.one_piece)


def _awake(
    request: Request, subjects: Sequence[Subject], hints: Hints, outcome: GradientOutcome
) -> Iterator[Subject]:
    """Wider subjects in place of those at which nothing moved: a shift may be longer than all rows are."""
    still = [subject for subject in subjects if subject.signature in outcome.still]
    for subject in still[:_MOST_STILL]:
        yield from itertools.islice(fitting(request, subject, wider(subject.signature, hints)), 1)


def _condition(change: Change) -> str:
    """What stands in quotes: the comparison that always went one way."""
    return change.words.split("`")[1] if change.words.count("`") > 1 else ""


def _past_slices(request: Request, last: Subject, hints: Hints) -> list[Subject]:
    """The subject with an axis in which all slices lie, where one of the last subject's takes nothing: it may be of any length."""
    if not _takes_nothing(last):
        return []
    longer = fitting(request, last, past_slices(last.signature, hints))
    return list(itertools.islice((there for there in longer if not _takes_nothing(there)), 1))


def _takes_nothing(subject: Subject) -> bool:
    """Has the function an empty array on its way, and none among its arguments?"""
    program = subject.traces().primal
    if program is None or subject.signature.is_empty:
        return False
    return any(0 in aval.shape for step in program.all_steps() for aval in step.out_avals)


def _in_pieces(request: Request, last: Subject, hints: Hints) -> Richer:
    """For each length of the pieces that the texts take, the subject with an axis that is several of them."""
    found: list[Subject] = []
    one_piece: list[int] = []
    for length in hints.pieces:
        if not any(length >= n > 1 for leaf in last.signature.leaves for n in leaf.shape):
            continue
        there = fitting(request, last, in_pieces(last.signature, hints, length))
        several = next((subject for subject in there if _turns(subject) > _turns(last)), None)
        if several is not None:
            found.append(several)
        elif not any(True for _ in in_pieces(last.signature, hints, length)):
            one_piece.append(length)
    return Richer(found, one_piece=tuple(one_piece))


def _turns(subject: Subject) -> int:
    """How many steps function and rule take, those of loops as often as they run."""
    traces = subject.traces()
    return sum(calls(p) for p in (traces.primal, traces.rule) if p is not None)


def _first(
    request: Request, last: Subject, signatures: Iterable[Signature], changes: Sequence[Change]
) -> list[Subject]:
    """The subject of the first signature that would show one of the changes."""
    if not changes:
        return []
    for there in fitting(request, last, itertools.islice(signatures, _MOST_TRIES)):
        try:
            shown = possible(changes, there) or reached(changes, there)
        except REFUSED:
            continue
        if shown:
            return [there]
    return []

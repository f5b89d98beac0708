"""The one change to the rule's text that makes it right: found by trying, shown because it is verified.

Each change is tried at a few points in floats; what passes there is traced again and held to the
truth over the reals at every point that was tried.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from types import FunctionType
from typing import Any, Self

import numpy as np

from gradcheck_cli.contract import report
from gradcheck_cli.judge.repair.divisors import Divisor, is_over_a_size, missing
from gradcheck_cli.judge.repair.edits import Edit, edits, instead
from gradcheck_cli.judge.repair.keeping import Keeping, keeping, names_used, renamed
from gradcheck_cli.judge.repair.known_numbers import literals, may_be_named
from gradcheck_cli.judge.repair.patch import patch
from gradcheck_cli.judge.repair.reach import reach
from gradcheck_cli.judge.repair.solved import added, solved
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.source.rewritten import as_patched, rewritten, tree_of
from gradcheck_cli.judge.source.written import written
from gradcheck_cli.subject.protocol import CustomGradient

Array = np.ndarray[Any, Any]
_Way = Callable[[FunctionType], Iterator[Edit]]

_MOST_TRIES = 150  # of each way to find changes
_MOST_RUNS = 240  # of the rule, to see what has to be there
_NOT_FINITE = "; in floats it is NaN or infinite at some inputs at which the rule is not"
_PLACES = 2  # of a factor, by which sizes are told apart
_LEAST_BLOCK = 4
_BLOCK = re.compile(r"block|tile|chunk|warps|stages", re.IGNORECASE)


# `+ 1e-6`, `+ eps`, `clip(…)`
_GUARD = re.compile(
    r"\+\s*(?:\d*\.?\d*e-\d+|0?\.00\d+|[\w.]*finfo|(?:[\w.]*[._])?eps(?:ilon)?)\b"
    r"|\b(?:\w*_)?eps(?:ilon)?\s*\+"
    r"|\b(?:clip|clamp|minimum|maximum|where|nan_to_num)\w*\(",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Correction:
    """A change that makes a rule right: in words, and what to write where, if the file can be read so."""

    text: str
    path: str
    patches: Sequence[report.Edit]  # that of the place first
    # It takes out nothing that stands there to keep numbers within bounds, and was seen to be right at other sizes.
    is_safe: bool = True

    @classmethod
    def of(cls, edit: Edit, function: FunctionType, count: int, *, is_safe: bool = True) -> Self:
        """A change of a function's text, with which it is the truth at so many probes."""
        place = patch(edit, function)
        patches = [] if place is None else [place]
        sound = is_safe and not (_takes_out_a_guard(edit) or may_be_named(edit, function))
        return cls(_in_words(edit, count), function.__code__.co_filename, patches, is_safe=sound)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of a change at one signature: to be about right at a few rows, and then the truth at all."""

    trial: Trial
    rows: Array
    screens: list[int]
    ends: list[int]  # at which the rule is finite
    in_floats: bool  # the fault is one that floats show: what is no more than a rounding is none

    @classmethod
    def of(cls, trial: Trial) -> _Asked:
        rows = trial.rows()
        return cls(trial, rows, trial.screens(rows), trial.ends(rows), trial.shows())

    @property
    def shows_a_fault(self) -> bool:
        return any(row in self.rows for row in self.trial.wrong)

    def passes(self) -> bool:
        return self.trial.passes(self.screens)

    def is_verified(self) -> bool:
        return self.trial.verified(self.rows, in_floats=self.in_floats)

    def stays_finite(self) -> bool:
        return all(map(self.trial.is_finite, self.ends))


def correction(trials: Sequence[Trial], gradient: CustomGradient) -> Correction | None:
    """One change for all signatures at once; None if no single one does it."""
    if not all(trial.simple for trial in trials):
        return None
    every = [_Asked.of(trial) for trial in trials]
    if not any(asked.shows_a_fault for asked in every):
        return None
    search = _Search(gradient, every)
    return search.plain() or _with_more_kept(gradient, every) or search.additions()


def _with_more_kept(gradient: CustomGradient, every: Sequence[_Asked]) -> Correction | None:
    """A change that rests on what the forward function has, and does not keep."""
    trials = [asked.trial for asked in every]
    looks = [asked.trial.looks(asked.rows) for asked in every]
    if not looks[0]:
        return None
    kept = keeping(gradient, lambda: trials[0].gradients(looks[0][0]))
    if kept is None:
        return None
    found = _found(kept, every, looks, literals(gradient))
    return None if found is None else _kept(*found, kept, every)


def _found(
    kept: Keeping, every: Sequence[_Asked], looks: Sequence[list[int]], numbers: frozenset[float]
) -> tuple[Edit, _Does] | None:
    """The change of the widened rule, and what it does, which is seen while that runs."""
    trials = [asked.trial for asked in every]
    second: tuple[Edit, _Does] | None = None
    with (
        rewritten(kept.forward, kept.handing) as hands,
        rewritten(kept.backward, kept.having) as has,
    ):
        runs = iter(range(_MOST_RUNS if hands and has else 0))
        found = solved(kept.backward, trials, looks, runs, numbers, kept.having)
        wanted = (edit for edit in found if len(list(names_used(edit.after, kept.names))) == 1)
        for edit in itertools.islice(wanted, _MOST_TRIES):
            does = _does(edit, kept.backward, every)
            if does is _Does.MENDS:
                return edit, does
            if does is _Does.MENDS_THE_FORMULA and second is None:
                second = edit, does
    return second


def _kept(edit: Edit, does: _Does, kept: Keeping, every: Sequence[_Asked]) -> Correction | None:
    """The change in the author's own text, with what it takes to keep what it rests on."""
    (name,) = names_used(edit.after, kept.names)
    saving, own = kept.keep(name), tree_of(kept.backward)
    if own is None or saving is None:
        return None
    after = renamed(edit.after, {name: kept.spelled(name)}, edit.before)
    change = Edit(edit.before, after, instead(own, edit.before, after))
    written = patch(change, kept.backward)
    patches = [] if written is None else [written, *saving]
    if patches and not _stands(kept, patches, every):
        return None
    count = sum(len(asked.rows) for asked in every)
    text = f"{_in_words(change, count)}, and keep `{name}` in the forward function"
    mends = does is _Does.MENDS
    doubtful = _takes_out_a_guard(change) or may_be_named(change, kept.backward) or not mends
    text = text if mends else f"{text}{_NOT_FINITE}"
    return Correction(text, kept.backward.__code__.co_filename, patches, is_safe=not doubtful)


def _stands(kept: Keeping, patches: Sequence[report.Edit], every: Sequence[_Asked]) -> bool:
    """Is the rule right as the file will have it?"""
    trees = [as_patched(function, patches) for function in (kept.forward, kept.backward)]
    if trees[0] is None or trees[1] is None:
        return False
    with (
        rewritten(kept.forward, trees[0]) as hands,
        rewritten(kept.backward, trees[1]) as has,
    ):
        runs = hands and has
        return runs and all(map(_Asked.passes, every)) and all(map(_Asked.is_verified, every))


class _Does(Enum):
    """What a change does to a rule, at all signatures."""

    NOTHING = auto()
    MENDS_THE_FORMULA = auto()  # and overflows, or divides by 0, where the rule did not
    MENDS = auto()


def _does(edit: Edit, function: FunctionType, every: Sequence[_Asked]) -> _Does:
    with rewritten(function, edit.tree) as runs:
        if not (runs and all(map(_Asked.passes, every)) and all(map(_Asked.is_verified, every))):
            return _Does.NOTHING
        finite = all(map(_Asked.stays_finite, every))
        return _Does.MENDS if finite else _Does.MENDS_THE_FORMULA


class _Search:
    """Changes at the places that can be at fault, each tried in its turn."""

    def __init__(self, gradient: CustomGradient, every: Sequence[_Asked]) -> None:
        self._gradient, self._every = gradient, every
        self._trials = [asked.trial for asked in every]
        self._reach = reach(self._trials, [asked.screens for asked in every])
        self._in_blocks = any(trial.m.subject.kernels for trial in self._trials)

    def plain(self) -> Correction | None:
        """What undoes a fault, then what has to be there."""
        off = ((asked.trial.factors(asked.screens), asked.trial.m.sizes) for asked in self._every)
        divisor = next((missing(*each) for each in off if each[0]), None)
        looks = [asked.trial.looks(asked.rows) for asked in self._every]
        functions = list(written(self._gradient))
        backward = [f for f in functions if f not in list(self._gradient.rule_code())[1:]]
        undone = self._first(functions, lambda function: _edits(function, divisor))
        runs, numbers = iter(range(_MOST_RUNS)), literals(self._gradient)
        return undone or self._first(
            backward, lambda f: solved(f, self._trials, looks, runs, numbers)
        )

    def additions(self) -> Correction | None:
        """What may be more in it, by mere trying."""
        return self._first(list(written(self._gradient)), added)

    def _first(self, functions: Sequence[FunctionType], way: _Way) -> Correction | None:
        every = ((function, edit) for function in functions for edit in way(function))
        allowed = ((function, edit) for function, edit in every if self._allows(function, edit))
        second: Correction | None = None
        for function, edit in itertools.islice(allowed, _MOST_TRIES):
            does = _does(edit, function, self._every)
            if does is _Does.MENDS:
                return _correction(edit, function, self._every)
            if does is _Does.MENDS_THE_FORMULA and second is None:
                found = _correction(edit, function, self._every)
                second = replace(found, text=f"{found.text}{_NOT_FINITE}", is_safe=False)
        return second

    def _allows(self, function: FunctionType, edit: Edit) -> bool:
        if self._in_blocks and _is_a_block(edit):
            return False
        return self._reach is None or self._reach.allows(function, edit)


def _correction(edit: Edit, function: FunctionType, every: Sequence[_Asked]) -> Correction:
    count = sum(len(asked.rows) for asked in every)
    return Correction.of(edit, function, count, is_safe=not _may_be_a_number(edit, every))


def _is_a_block(edit: Edit) -> bool:
    """Does it change a block, or a number that may be one? A larger one hides what is wrong beyond the first."""
    number = int(edit.old) if edit.old.isdecimal() else 0
    is_size = number >= _LEAST_BLOCK and number.bit_count() == 1
    return is_size or _BLOCK.search(f"{edit.old} {edit.new}") is not None


def _edits(function: FunctionType, divisor: Divisor | None) -> Iterator[Edit]:
    tree = tree_of(function)
    return iter(()) if tree is None else edits(tree, divisor)


def _takes_out_a_guard(edit: Edit) -> bool:
    """Does it take out an eps that is added, or a clip? That may be meant, though the formula is another one."""
    return len(_GUARD.findall(edit.new)) < len(_GUARD.findall(edit.old))


def _may_be_a_number(edit: Edit, every: Sequence[_Asked]) -> bool:
    """Does it divide by a size, where the rule was too large by one and the same factor wherever it was tried?

    So many may be another number.
    """
    if not is_over_a_size(edit.new) or is_over_a_size(edit.old):
        return False
    factors = (asked.trial.factors(asked.screens) for asked in every)
    return len({round(each[0], _PLACES) for each in factors if each}) < 2


def _in_words(edit: Edit, count: int) -> str:
    change = f"line {edit.line}: `{edit.new}` instead of `{edit.old}`"
    return f"{change} (then it is the truth at all {count} probes)"

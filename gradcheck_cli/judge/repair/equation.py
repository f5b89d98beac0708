"""What a gradient asks of a place in a rule's text, element by element.

Twice what stands there shows how the gradient rests on it: evenly, or as a power of it.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import SCREEN
from gradcheck_cli.judge.repair.edits import instead
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.source.rewritten import rewritten
from gradcheck_cli.judge.source.rule_text import Function
from gradcheck_cli.judge.source.seen import Seen, seen
from gradcheck_cli.measure.components import GRADIENTS

Array = np.ndarray[Any, Any]

_LEAST, _ENOUGH, _MOST = 4, 12, 60  # elements
_MOST_LOOKS = 8  # rows, all signatures together
_POWERS = (-2, -1, -0.5, 0.5, 2)  # of the place, in what the gradient is
_CLOSE = SCREEN.value / 4


@dataclass(frozen=True, slots=True)
class Question:
    """Numbers that `weight` times what is looked for has to be, each within its own tolerance."""

    weight: Array
    asked: Array
    within: Array

    def is_answered(self, candidates: Array) -> Array:
        """Which rows of candidates answer it at all elements?"""
        return np.asarray(
            (np.abs(self.weight * candidates - self.asked) <= self.within).all(axis=-1)
        )


@dataclass(frozen=True, slots=True)
class Look:
    """A row at which the rule is run: its gradients, which are wrong, and what stood in its places."""

    trial: Trial
    row: int
    gradients: Sequence[Array]
    wrong: Sequence[bool]
    seen: Seen

    @property
    def truths(self) -> Sequence[Array]:
        truth = self.trial.m.reference.middle(GRADIENTS)[self.row]
        return np.split(truth, np.cumsum([len(g) for g in self.gradients])[:-1])

    def shape(self, argument: int) -> tuple[int, ...]:
        return tuple(self.trial.m.points[argument].shape[1:])


@dataclass(frozen=True, slots=True)
class _Block:
    """Elements of one gradient at one look that rest on a place."""

    look: Look
    shape: tuple[
        int, ...
    ]  # of what stands in the place; where that is not as long, of the gradient
    chosen: Array
    once: Array
    twice: Array
    truth: Array
    here: Array | None  # what stands in the place

    @property
    def within(self) -> Array:
        """What is near enough: beside the truth, or, where that is 0, beside what cancels there."""
        size = np.abs(self.truth).max() or np.abs(self.once).max()
        return np.full(len(self.truth), SCREEN.value * size)

    def numbers(self, of: Array | None) -> Array | None:
        """An array of the rule at these elements; None where it does not fit beside the place."""
        if of is None:
            return None
        try:
            return np.broadcast_to(of, self.shape).reshape(-1)[self.chosen].astype(float)
        except ValueError:
            return None


@dataclass(frozen=True)
class Equation:
    """A place, and the elements of wrong gradients that rest on it."""

    blocks: Sequence[_Block]

    @property
    def is_told(self) -> bool:
        """Are there enough elements, and does the place have to be another at one of them?"""
        factor = self._power
        if sum(len(block.chosen) for block in self.blocks) < _LEAST:
            return False
        return factor is not None or bool(np.any(np.abs(self._truth - self._once) > self._within))

    def factor(self) -> Question:
        """What the place has to be multiplied by."""
        power = self._power
        if power is not None:
            return Question(np.ones_like(power), power, SCREEN.value * np.abs(power))
        return Question(self._moved, self._rest, self._within)

    def factor_less_one(self) -> Question:
        """What has to be added to that factor of 1 with which it stands there."""
        question = self.factor()
        return Question(question.weight, question.asked - question.weight, question.within)

    def other(self) -> Question | None:
        """What has to stand there instead; None where its own numbers are not known."""
        here = self._all([block.here for block in self.blocks])
        if here is None or not here.all():
            return None
        question = self.factor()
        if self._power is not None:
            return Question(question.weight, question.asked * here, np.abs(question.within * here))
        return Question(question.weight / here, question.asked, question.within)

    def term(self) -> Question | None:
        """What has to be added to it."""
        here, other = self._all([block.here for block in self.blocks]), self.other()
        if here is None or other is None:
            return None
        return Question(other.weight, other.asked - other.weight * here, other.within)

    def names(self, *, true_or_false: bool = False) -> list[str]:
        """All that has numbers where the rule returns; or all that is true or false there."""
        named = [item for block in self.blocks for item in block.look.seen.names.items()]
        conditions = {name for name, array in named if array.dtype == bool}
        return [n for n in dict.fromkeys(n for n, _ in named) if (n in conditions) is true_or_false]

    def named(self, name: str) -> Array | None:
        """The numbers behind a name at all elements."""
        return self._all([block.numbers(block.look.seen.names.get(name)) for block in self.blocks])

    def along(self, one: str, other: str | None, of: Callable[..., Any]) -> Array | None:
        """A sum of what is behind a name, or behind two, along the last axis, which it must have everywhere."""
        found: list[Array | None] = []
        for block in self.blocks:
            names = block.look.seen.names
            array, more = names.get(one), np.ones(1) if other is None else names.get(other)
            if array is None or more is None or min(np.ndim(array), len(block.shape)) < 1:
                return None
            try:
                found.append(block.numbers(of(array * more, axis=-1, keepdims=True)))
            except ValueError:
                return None
        return self._all(found)

    @staticmethod
    def _all(arrays: Sequence[Array | None]) -> Array | None:
        known = [array for array in arrays if array is not None]
        return np.concatenate(known) if known and len(known) == len(arrays) else None

    @functools.cached_property
    def _once(self) -> Array:
        return np.concatenate([block.once for block in self.blocks])

    @functools.cached_property
    def _moved(self) -> Array:
        return np.concatenate([block.twice for block in self.blocks]) - self._once

    @functools.cached_property
    def _truth(self) -> Array:
        return np.concatenate([block.truth for block in self.blocks])

    @functools.cached_property
    def _rest(self) -> Array:
        rest: Array = self._truth - (self._once - self._moved)
        return rest

    @functools.cached_property
    def _within(self) -> Array:
        return np.concatenate([block.within for block in self.blocks])

    @functools.cached_property
    def _power(self) -> Array | None:
        """The factor, where the gradient is a power of the place; None where it rests on it evenly, or otherwise."""
        once, twice = self._once, self._once + self._moved
        with np.errstate(all="ignore"):
            for power in _POWERS:
                if np.allclose(twice, once * 2.0**power, rtol=_CLOSE, atol=0):
                    factor = np.asarray((self._truth / once) ** (1 / power))
                    return factor if np.isfinite(factor).all() else None
        return None


@dataclass(frozen=True, slots=True)
class Text:
    """A grad function in its text, and the function that is run for it."""

    function: FunctionType
    tree: Function
    part: Function


def looks(
    text: Text,
    places: Sequence[ast.expr],
    names: Sequence[str],
    trials: Sequence[Trial],
    rows: Sequence[Sequence[int]],
) -> list[Look]:
    """Rows of each signature in turn, until there are enough elements."""
    each = [[(t, row) for row in own] for t, own in zip(trials, rows, strict=True)]
    turns = (pair for turn in itertools.zip_longest(*each) for pair in turn if pair is not None)
    found: list[Look] = []
    for trial, row in itertools.islice(turns, _MOST_LOOKS):
        gradients = trial.gradients(row) or []
        wrong = trial.apart(row, gradients)
        alike = not found or len(gradients) == len(found[0].gradients)
        if gradients and wrong is not None and alike:
            there = _seen(text, places, names, trial, row)
            found.append(Look(trial, row, gradients, wrong, there))
        if sum(len(g) for look in found for g in look.gradients) >= _MOST:
            break
    return found


def _seen(
    text: Text, places: Sequence[ast.expr], names: Sequence[str], trial: Trial, row: int
) -> Seen:
    def run() -> None:
        trial.gradients(row)

    return seen(text.function, text.tree, text.part, places, names, run)


def equation(
    text: Text, place: ast.expr, looks: Sequence[Look], runs: Iterator[int]
) -> Equation | None:
    """The elements that rest on a place, by one run for each look; None where there are none, or no runs are left."""
    wrong = np.any([look.wrong for look in looks], axis=0)
    doubled = instead(text.tree, place, ast.BinOp(place, ast.Mult(), ast.Constant(2)))
    blocks: list[_Block] = []
    for look in looks:
        if place not in look.seen.places or sum(len(b.chosen) for b in blocks) >= _ENOUGH:
            continue
        twice = None if next(runs, None) is None else _run(text.function, doubled, look)
        if twice is None:
            return None
        blocks += _blocks(look, wrong, twice, look.seen.places[place])
    return Equation(blocks) if blocks else None


def _run(function: FunctionType, tree: Function, look: Look) -> Sequence[Array] | None:
    with rewritten(function, tree) as runs:
        found = look.trial.gradients(look.row) if runs else None
    same = found is not None and [len(g) for g in found] == [len(g) for g in look.gradients]
    return found if same else None


def _telling(one: Array, two: Array, truth: Array) -> Array:
    """Elements that move with the place: some that are wrong, and some that may be right."""
    moves = (one != two) & np.isfinite(one + two + truth)
    apart = np.abs(truth - one) > SCREEN.value * np.abs(truth).max(initial=0)
    each = [_spread(np.flatnonzero(moves & apart)), _spread(np.flatnonzero(moves & ~apart))]
    return np.sort(np.concatenate(each))


def _spread(places: Array) -> Array:
    return places[:: max(1, -(-len(places) // _ENOUGH))]


def _blocks(
    look: Look, wrong: Sequence[bool], twice: Sequence[Array], here: Array | None
) -> Iterator[_Block]:
    for k, (one, two, truth) in enumerate(zip(look.gradients, twice, look.truths, strict=True)):
        chosen = _telling(one, two, truth)
        if wrong[k] and len(chosen):
            own = here if here is not None and here.size == one.size else None
            shape = look.shape(k) if own is None else own.shape
            flat = None if own is None else own.reshape(-1)[chosen].astype(float)
            yield _Block(look, shape, chosen, one[chosen], two[chosen], truth[chosen], flat)

"""What has to stand in a place of a rule's text for the gradient to be the truth, in the rule's own names.

What is missing there is a number for each element, not a guess. Where these numbers are a word of the rule (a factor
`1 - t**2`, a term, a mask), that is what the author forgot. It is tried like any other change: what is no answer
after all is not verified.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator, Sequence
from types import FunctionType

import numpy as np

from gradcheck_cli.judge.repair.edits import Edit, additions, instead, shaped
from gradcheck_cli.judge.repair.equation import Equation, Question, Text, equation, looks
from gradcheck_cli.judge.repair.spelled import along, library_in, where
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.repair.words import Meaning, Word, is_a_mask, masks, meanings, words
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import (
    Function,
    library_of,
    names_in,
    places_in,
    returned_by,
    rules_in,
)

_MOST_CONSTANTS = 8
_MOST_MEANINGS = 2  # of each kind at one place
_MOST_NAMES, _MOST_SUMMED = 40, 10
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_OF_TERMS, _OF_FACTORS = 1, 2  # what is less plain than a factor


def solved(
    function: FunctionType,
    trials: Sequence[Trial],
    rows: Sequence[Sequence[int]],
    runs: Iterator[int],
    numbers: frozenset[float],
    tree: Function | None = None,
) -> Iterator[Edit]:
    """Changes at the places of a function for which there is a word, the plainest first; in its own text or in `tree`.

    A factor that is a number of elements wherever it was tried may be that, unless it is one of these numbers.
    """
    tree = tree_of(function) if tree is None else tree
    if tree is None:
        return
    sizes = set.intersection(*(set(trial.m.sizes) for trial in trials)) - numbers
    found: list[tuple[int, Edit]] = []
    for part in rules_in(tree):
        names = _all_names(function, tree, part)
        library = library_of(part, names) or library_in(function.__globals__)
        text = Text(function, tree, part)
        places = list(dict.fromkeys([*returned_by(part), *places_in(part)]))
        turns = {
            id(inner)
            for node in ast.walk(part)
            if isinstance(node, _LOOPS)
            for inner in ast.walk(node)
        }
        seen = looks(text, places, names, trials, rows)
        for place in places:
            asked = equation(text, place, seen, runs)
            if asked is not None and asked.is_told:
                of_parts = id(place) not in turns
                answers = _Answers(asked, place, library, sizes, of_parts=of_parts)
                found += [
                    (cost, Edit(place, new, instead(tree, place, new)))
                    for cost, new in answers.all()
                ]
    yield from (edit for _, edit in sorted(found, key=lambda each: each[0]))


def added(function: FunctionType) -> Iterator[Edit]:
    """Changes with something more in it, by mere trying, in the spelling of the function's module."""
    tree = tree_of(function)
    return iter(()) if tree is None else additions(tree, library_in(function.__globals__))


def reshaping(function: FunctionType) -> Iterator[Edit]:
    """Changes that may give a gradient its shape, in the spelling of the function's module."""
    tree = tree_of(function)
    return iter(()) if tree is None else shaped(tree, library_in(function.__globals__))


def _all_names(function: FunctionType, tree: Function, part: Function) -> list[str]:
    """What the part can name: variables, parameters, and numbers of its module."""
    parameters = [a.arg for a in part.args.args]
    return list(dict.fromkeys([*names_in(tree, part), *parameters, *_constants(function)]))


def _constants(function: FunctionType) -> list[str]:
    """What the module calls numbers: `FLOOR = 1e-6`."""
    scope = function.__globals__.items()
    numbers = [n for n, v in scope if type(v) in (int, float) and not n.startswith("__")]
    return numbers[:_MOST_CONSTANTS]


class _Answers:
    """What may stand in a place instead."""

    def __init__(
        self,
        asked: Equation,
        place: ast.expr,
        library: str | None,
        sizes: Collection[int],
        *,
        of_parts: bool,  # one of several is no word where the place stands for each of them
    ) -> None:
        self._of_parts = of_parts
        self._asked, self._place, self._library, self._sizes = asked, place, library, sizes
        self._names = list(self._named())
        self._words = words(self._names, [*self._summed()], library, len(asked.factor().asked))

    def all(self) -> Iterator[tuple[int, ast.expr]]:
        """With a factor more, or under a mask; with a term more; another word; with one and a factor. Each with its cost."""
        factor = self._asked.factor()
        if is_a_mask(factor):
            flags = list(self._named(true_or_false=True))
            for condition in itertools.islice(masks(factor, self._names, flags), _MOST_MEANINGS):
                if self._library is not None:
                    yield 1, where(self._library, condition, self._place)
            return
        for meaning in self._to(factor):
            yield meaning.cost, meaning.times(self._place)
        for meaning in self._to(self._asked.term(), of_three=True):
            yield meaning.cost + _OF_TERMS, meaning.added_to(self._place)
        for meaning in self._to(self._asked.other()):
            yield meaning.cost + _OF_TERMS, meaning.alone()
        for meaning in self._to(self._asked.factor_less_one()):
            if meaning.is_number:  # else it would be a factor
                continue
            more = meaning.added_to(ast.Constant(1))
            yield meaning.cost + _OF_FACTORS, ast.BinOp(self._place, ast.Mult(), more)

    def _to(self, question: Question | None, *, of_three: bool = False) -> Iterator[Meaning]:
        if question is None:
            return iter(())
        known = meanings(question, self._words, of_three=of_three)
        apart = (m for m in known if not m.may_count(self._sizes))
        return itertools.islice(apart, _MOST_MEANINGS)

    def _named(self, *, true_or_false: bool = False) -> Iterator[Word]:
        """The names of the rule that have a number for each of the elements, but for the place itself."""
        names = self._asked.names(true_or_false=true_or_false)
        for name in names[:_MOST_NAMES]:
            if "[" in name and not self._of_parts:
                continue
            numbers = self._asked.named(name)
            if numbers is not None and name != ast.unparse(self._place):
                yield Word(_parsed(name), 2 if "[" in name else 1, numbers)

    def _summed(self) -> Iterator[Word]:
        """Sums and means of names, and of products of two, along the last axis."""
        library = self._library
        if library is None:
            return
        names = [name for name in self._asked.names() if "[" not in name][:_MOST_SUMMED]
        for one, other in [
            *((n, None) for n in names),
            *itertools.combinations_with_replacement(names, 2),
        ]:
            node = _parsed(one if other is None else f"{one} * {other}")
            for way, of in (("sum", np.sum), ("mean", np.mean)):
                numbers = self._asked.along(one, other, of)
                if numbers is not None:
                    yield Word(along(library, way, node), 2 if other is None else 3, numbers)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body

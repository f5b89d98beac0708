"""Expressions over the names of a rule, each with its numbers: what may be missing in a place.

A name, what is near to it (its square, its cosine, one less it), sums of it, products and quotients of two or three.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from gradcheck_cli.judge.repair.equation import Question
from gradcheck_cli.judge.repair.spelled import call

Array = np.ndarray[Any, Any]

_FUNCTIONS = {
    "exp": np.exp, "log": np.log, "cos": np.cos, "sin": np.sin, "tanh": np.tanh, "sqrt": np.sqrt, "sigmoid": expit, "sign": np.sign, "abs": np.abs,
}  # fmt: skip
# What products of two are made of, and of three.
_MOST_WORDS, _MOST_OF_THREE = 120, 24
_OF_THREE = 2  # the dearest word in them
_MOST_COMPARED = 10
_LEVELS = (0, 1, -1)  # at which functions bend
_ROOTS = (0.3989422804014327, 0.7978845608028654, 1.1283791670955126)  # 1/√(2π), √(2/π), 2/√π
_SHARES = (1, 2, 1 / 2, 3, 1 / 3, 4, 1 / 4)
_FACTORS = np.array([sign * share for share in (*_SHARES, *_ROOTS) for sign in (1, -1)])


@dataclass(frozen=True, slots=True)
class Word:
    """An expression, how far-fetched it is, and its numbers at the samples."""

    node: ast.expr
    cost: int
    numbers: Array


@dataclass(frozen=True, slots=True)
class Meaning:
    """A number times words over a word: what was asked for, at all samples."""

    factor: float
    over: Sequence[Word]
    under: Word | None

    @property
    def cost(self) -> int:
        dear = 0 if self.factor == 1 else 2 if self.is_number else 1  # a name says more
        return dear + sum(w.cost for w in self.over) + (self.under.cost + 1 if self.under else 0)

    @property
    def is_number(self) -> bool:
        return self.under is None and all(_is_one(word.node) for word in self.over)

    def may_count(self, sizes: Collection[int]) -> bool:
        """Is its number one of these sizes, or one over it? Then it may be that by chance, and another one elsewhere."""
        return any(abs(self.factor) in (n, 1 / n) for n in sizes if n > 1)

    def alone(self) -> ast.expr:
        return self._text([])

    def added_to(self, other: ast.expr) -> ast.expr:
        """It as a term behind another one."""
        if self.factor < 0:
            return ast.BinOp(other, ast.Sub(), replace(self, factor=-self.factor).alone())
        return ast.BinOp(other, ast.Add(), self.alone())

    def times(self, place: ast.expr) -> ast.expr:
        """It as a factor of what stands in the place."""
        return self._text([place])

    def _text(self, before: Sequence[ast.expr]) -> ast.expr:
        parts = [*before, *(word.node for word in self.over if not _is_one(word.node))]
        whole = functools.reduce(_product, parts) if parts else ast.Constant(1)
        whole = _scaled(whole, self.factor) if parts else _constant(self.factor)
        return whole if self.under is None else ast.BinOp(whole, ast.Div(), self.under.node)


def words(
    names: Sequence[Word], sums: Sequence[Word], library: str | None, count: int
) -> list[Word]:
    """One, the names, what is near to them, and sums, the plainest first; each with so many numbers."""
    near = [word for name in names for word in _near(name, library)]
    known = sorted([*names, *near, *sums], key=lambda word: word.cost)
    finite = [w for w in known if np.isfinite(w.numbers).all() and w.numbers.any()]
    return [Word(ast.Constant(1), 0, np.ones(count)), *finite[:_MOST_WORDS]]


def meanings(question: Question, known: Sequence[Word], *, of_three: bool = False) -> list[Meaning]:
    """What answers a question, the plainest first."""
    found = [*_quotients(question, known), *_products(question, known)]
    if of_three and not found:
        few = [w for w in known if 0 < w.cost <= _OF_THREE][:_MOST_OF_THREE]
        found = list(_of_three(question, few))
    return sorted(found, key=lambda meaning: meaning.cost)


def is_a_mask(question: Question) -> bool:
    """Is it answered by 0 at some elements, and by 1 at all others?"""
    zero, one = (np.abs(question.asked - n * question.weight) <= question.within for n in (0, 1))
    return bool((zero | one).all() and zero.any() and one.any())


def masks(question: Question, names: Sequence[Word], flags: Sequence[Word]) -> list[ast.expr]:
    """The conditions that are true where a 1 is asked for, and false where a 0 is."""
    plain = ((flag.node, flag.numbers) for flag in flags)
    every = itertools.chain(plain, _conditions(names))
    return [node for node, holds in every if question.is_answered(holds.astype(float))]


def _near(name: Word, library: str | None) -> Iterator[Word]:
    x, n, cost = name.node, name.numbers, name.cost
    one, square = ast.Constant(1), ast.BinOp(x, ast.Pow(), ast.Constant(2))
    with np.errstate(all="ignore"):
        yield Word(ast.BinOp(one, ast.Sub(), x), cost + 1, 1 - n)
        yield Word(ast.BinOp(one, ast.Add(), x), cost + 1, 1 + n)
        yield Word(square, cost + 1, n**2)
        if _is_level(name):
            return
        yield Word(ast.BinOp(one, ast.Sub(), square), cost + 2, 1 - n**2)
        yield Word(ast.BinOp(one, ast.Add(), square), cost + 2, 1 + n**2)
        yield Word(ast.BinOp(x, ast.Pow(), ast.Constant(3)), cost + 2, n**3)
        if library is None or cost > 1:
            return
        for called, function in _FUNCTIONS.items():
            yield Word(call(library, called, x), cost + 2, function(n))
        less, half = ast.UnaryOp(ast.USub(), x), ast.BinOp(square, ast.Div(), ast.Constant(2))
        yield Word(call(library, "exp", less), cost + 3, np.exp(-n))
        yield Word(call(library, "exp", ast.UnaryOp(ast.USub(), square)), cost + 3, np.exp(-(n**2)))
        yield Word(
            call(library, "exp", ast.UnaryOp(ast.USub(), half)), cost + 4, np.exp(-(n**2) / 2)
        )
        far = ast.UnaryOp(ast.USub(), call(library, "abs", x))
        yield Word(call(library, "exp", far), cost + 4, np.exp(-np.abs(n)))


def _quotients(question: Question, known: Sequence[Word]) -> Iterator[Meaning]:
    """A word, or one over another."""
    numbers = np.array([w.numbers for w in known])
    for i, over in enumerate(known):
        with np.errstate(all="ignore"):
            those = numbers[i] / numbers
        for j, factor in _that_answer(question, those):
            if j != i or i == 0:
                yield Meaning(factor, (over,), None if _is_one(known[j].node) else known[j])


def _products(question: Question, known: Sequence[Word]) -> Iterator[Meaning]:
    numbers = np.array([w.numbers for w in known])
    for i, first in enumerate(known):
        if not _is_one(first.node):
            for j, factor in _that_answer(question, numbers[i] * numbers[i:]):
                yield Meaning(factor, (first, known[i + j]), None)


def _of_three(question: Question, known: Sequence[Word]) -> Iterator[Meaning]:
    numbers = np.array([w.numbers for w in known])
    for i, j in itertools.combinations_with_replacement(range(len(known)), 2):
        for k, factor in _that_answer(question, numbers[i] * numbers[j] * numbers[j:]):
            yield Meaning(factor, (known[i], known[j], known[j + k]), None)


def _that_answer(question: Question, candidates: Array) -> Iterator[tuple[int, float]]:
    """Which of them answer it, but for a plain factor."""
    with np.errstate(all="ignore"):
        share = question.weight / question.within  # each element counts by how closely it is known
        held, asked = candidates * share, question.asked / question.within
        shares = (held @ asked) / (held * held).sum(axis=1)
        nearest = np.abs(shares[:, None] - _FACTORS).argmin(axis=1)
        answer = (np.abs(held * _FACTORS[nearest][:, None] - asked) <= 1).all(axis=1)
    for index in np.flatnonzero(answer & np.isfinite(shares)):
        yield int(index), float(_FACTORS[nearest[index]])


def _conditions(names: Sequence[Word]) -> Iterator[tuple[ast.expr, Array]]:
    names = names[:_MOST_COMPARED]
    levels = [
        Word(_constant(n), 0, np.full_like(name.numbers, n)) for name in names[:1] for n in _LEVELS
    ]
    for name in names:
        if _is_level(name):
            continue
        for other in (*levels, *(n for n in names if n is not name)):
            yield _compared(name, ast.Gt(), other), name.numbers > other.numbers
            yield _compared(name, ast.Lt(), other), name.numbers < other.numbers
    for name, low, high in itertools.product(names, (*levels, *names), (*levels, *names)):
        if _is_level(low) and _is_level(high) and not _is_level(name):
            above, below = _compared(name, ast.Gt(), low), _compared(name, ast.Lt(), high)
            holds = (name.numbers > low.numbers) & (name.numbers < high.numbers)
            yield ast.BinOp(above, ast.BitAnd(), below), holds


def _is_level(word: Word) -> bool:
    return bool((word.numbers == word.numbers[0]).all())


def _compared(name: Word, sign: ast.cmpop, other: Word) -> ast.expr:
    return ast.Compare(name.node, [sign], [other.node])


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _product(one: ast.expr, other: ast.expr) -> ast.expr:
    return ast.BinOp(one, ast.Mult(), other)


def _constant(factor: float) -> ast.expr:
    if abs(factor) == 1 / 3:
        return ast.BinOp(_constant(1.0 if factor > 0 else -1.0), ast.Div(), ast.Constant(3))
    if factor < 0:
        return ast.UnaryOp(ast.USub(), _constant(-factor))
    return ast.Constant(int(factor) if factor == int(factor) else factor)


def _scaled(node: ast.expr, factor: float) -> ast.expr:
    if factor == 1:
        return node
    if factor == -1:
        return ast.UnaryOp(ast.USub(), node)
    if abs(factor) == 1 / 3:
        return ast.BinOp(_scaled(node, 1.0 if factor > 0 else -1.0), ast.Div(), ast.Constant(3))
    return ast.BinOp(_constant(factor), ast.Mult(), node)

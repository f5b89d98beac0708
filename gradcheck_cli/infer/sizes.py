"""Sizes of axes as unknowns: what a refusal states of them is solved, not guessed.

While shapes are explored, each unknown is a prime of its own, so a number in an error names its axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

# The number that stands for each unknown: sums, and small multiples of these, are none of them.
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_TURN = 7  # places in the row of primes
_SMALL = (2, 3)
_LARGER = 120  # than all primes above: another prime for most of them
_FACTORS = (2, 3, 4)
_LARGEST_NUMBER = 65  # a size that the function itself states: four of a quaternion, 64 of a table


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of multiples of unknowns and a number: `2·n + 1`."""

    terms: tuple[tuple[int, int], ...] = ()  # (unknown, how many times), in order
    constant: int = 0

    def plus(self, other: Size, times: int = 1) -> Size:
        counts = dict(self.terms)
        for unknown, count in other.terms:
            counts[unknown] = counts.get(unknown, 0) + times * count
        kept = tuple(sorted((u, n) for u, n in counts.items() if n))
        return Size(kept, self.constant + times * other.constant)

    def at(self, numbers: Mapping[int, int]) -> int:
        """The size where each unknown is the number that stands for it."""
        return self.constant + sum(n * numbers[u] for u, n in self.terms)


def unknown(number: int) -> Size:
    """The size that is this unknown alone."""
    return Size(((number, 1),))


Equation = tuple[Size, Size]


@dataclass(frozen=True, slots=True)
class Solution:
    """What is solved until now: unknowns that are others' sums and multiples."""

    bound: Mapping[int, Size] = field(default_factory=dict)
    scale: int = 1  # every unknown is this many times its prime: some functions divide an axis
    enlarged: frozenset[int] = frozenset()  # unknowns that are larger than all others
    reduced: frozenset[int] = frozenset()  # unknowns that are much smaller than all others
    turned: bool = False  # every unknown has the prime of another

    def of(self, size: Size) -> Size:
        """The size in free unknowns."""
        result = Size(constant=size.constant)
        for u, n in size.terms:
            result = result.plus(self.bound.get(u, unknown(u)), n)
        return result

    def number(self, size: Size) -> int:
        """The size as explored: free unknowns are their primes."""
        free = self.of(size)
        return free.at({u: self.scale * self._prime(u) for u, _ in free.terms})

    def _prime(self, u: int) -> int:
        if u in self.reduced:
            return _SMALL[u % len(_SMALL)]
        prime = _PRIMES[(u + _TURN * self.turned) % len(_PRIMES)]
        return prime + _LARGER if u in self.enlarged else prime

    def with_equations(self, equations: Sequence[Equation]) -> Solution | None:
        """The solution of these equations too; None where they cannot hold, or say nothing new."""
        solved = self
        for left, right in equations:
            gap = solved.of(left).plus(solved.of(right), -1)
            if gap.terms or gap.constant:
                following = solved._without(gap)
                if following is None:
                    return None
                solved = following
        return None if solved is self else solved

    def _without(self, gap: Size) -> Solution | None:
        """One of the gap's unknowns bound so that the gap is zero; the first one that can be."""
        gap = _part(gap)
        for u, n in gap.terms:
            if abs(n) != 1:
                continue
            rest = gap.plus(unknown(u), -n)
            value = Size().plus(rest, -n)
            if all(count > 0 for _, count in value.terms) and (value.terms or value.constant > 0):
                substituted = {k: _put(v, u, value) for k, v in self.bound.items()}
                return replace(self, bound={**substituted, u: value})
        return None


def _put(size: Size, u: int, value: Size) -> Size:
    count = dict(size.terms).get(u, 0)
    return size.plus(unknown(u), -count).plus(value, count) if count else size


def equations(
    sizes: Sequence[Size],
    solution: Solution,
    left: int,
    right: int,
    constants: Collection[int] = (),
) -> Iterator[Equation]:
    """What it may mean that two numbers of an error should be equal, likeliest first; no axis makes those that are constants."""
    parts = [_part(solution.of(size)) for size in sizes]
    values = {solution.number(size): size for size in reversed([*sizes, *parts])}
    ways = ([Size(constant=n)] if n in constants else _readings(values, n) for n in (left, right))
    yield from itertools.product(*ways)
    for factor in _FACTORS:  # both are shares of sizes
        if not {left, right} & values.keys() and {left * factor, right * factor} <= values.keys():
            yield values[left * factor], values[right * factor]
    for part, whole in ((left, right), (right, left)):  # `part` is a share of a size
        for factor in _FACTORS:
            if part not in values and part * factor in values and whole in values:
                yield values[part * factor], Size().plus(values[whole], factor)
    for rest, part in ((left, right), (right, left)):  # the rest of a size that is cut
        if rest not in values and part in values and rest + part in values:
            cut = values[rest + part]
            yield from ((cut, Size().plus(values[part], factor)) for factor in _FACTORS)
    for number, other in ((left, right), (right, left)):  # a size that the function states
        if number not in values and other in values and 1 < number < _LARGEST_NUMBER:
            yield values[other], Size(constant=number)


def by_parts(left: Size, right: Size, solution: Solution) -> Iterator[list[Equation]]:
    """Two sums of two as parts that are equal one by one: `n + m` of what is joined is `I + H` of a kernel."""
    ones, others = _parts(solution.of(left)), _parts(solution.of(right))
    if len(ones) == len(others) == 2:
        yield list(zip(ones, others, strict=True))
        yield list(zip(ones, reversed(others), strict=True))


def _parts(size: Size) -> list[Size]:
    """The terms of a sum that has no number."""
    return [] if size.constant else [Size((term,)) for term in size.terms]


def _part(size: Size) -> Size:
    """What the size is a multiple of."""
    shared = math.gcd(size.constant, *(n for _, n in size.terms)) or 1
    return Size(tuple((u, n // shared) for u, n in size.terms), size.constant // shared)


def _readings(values: Mapping[int, Size], number: int) -> Iterator[Size]:
    """The size that is this number; else a multiple, a sum of two, one more or less."""
    if number in values:
        yield values[number]
        return
    for value, size in values.items():
        yield from (Size().plus(size, k) for k in _FACTORS if value * k == number)
    for (a, first), (b, second) in itertools.combinations(values.items(), 2):
        if a + b == number:
            yield first.plus(second)
    for value, size in values.items():
        if abs(value - number) == 1:
            yield size.plus(Size(constant=number - value))

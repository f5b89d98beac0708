"""Shapes that a function takes, with axes that are free, and small sizes for these."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.infer.sizes import Size, Solution

# Sizes of the free axes, the first array's first: all different, then such as divide into parts.
_SIZES: tuple[tuple[int, ...], ...] = (
    (4, 3, 2, 5, 6, 7), (6, 5, 3, 2, 4, 7), (4, 6, 2, 8, 10, 12), (6, 3, 9, 12, 15, 18), (8, 4, 12, 16, 20, 24),
)  # fmt: skip
# Those along which windows slide: the first array is longer than what the other ones bring.
_SLIDING = ((6, 5, 3, 2, 4, 7), (7, 3, 2, 4, 5, 6))
# Where the first array has three axes or more: with channels last, with channels first.
_DEEP_SLIDING = ((2, 6, 3, 2, 4, 3), (2, 3, 6, 4, 2, 3, 2))
# Four groups of two, last or behind the first axis.
_GROUPED = ((2, 3, 8, 4, 5, 6), (2, 8, 3, 4, 5, 6))
# Of three arrays or more with four sizes in all, as of queries, keys and values of one shape; with five.
_OF_THREE = {(2, 2, 4, 3): 4, (2, 2, 4, 3, 2): 5}
# The last but these are smaller ones, some of them equal, for four axes.
_DEEP_SIZES = (
    (2, 4, 3, 5, 6, 7), *_DEEP_SLIDING, *_OF_THREE, (2, 2, 2, 3, 4, 5), (2, 2, 3, 2, 4, 3), (2, 2, 5, 4, 3, 2, 2), (3, 4, 2, 5, 6, 7), *_SIZES[2:], *_GROUPED,
)  # fmt: skip
_SHORT, _SHORT_HALF = (3, 2), (1, 2)
_FIRST_SIZE, _LEAST_WITH_TABLE = 2, 3  # two rows are too few for a table, if more can be had

Shapes = tuple[tuple[Size, ...], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Shapes that the function takes, with the sizes that are free in them."""

    shapes: Shapes
    solution: Solution
    ascending: bool
    order: int  # in which it was met
    own: frozenset[int] = frozenset()  # sizes of one array, which no free axis is to have

    def at(self, solution: Solution) -> list[tuple[int, ...]]:
        """The sizes as explored, at another solution."""
        return [tuple(map(solution.number, shape)) for shape in self.shapes]

    @property
    def free(self) -> list[int]:
        """The unknowns that nothing binds, the first array's first."""
        sizes = (self.solution.of(size) for shape in self.shapes for size in shape)
        return list(dict.fromkeys(u for size in sizes for u, _ in size.terms))

    @property
    def richness(self) -> tuple[int, int, int, int]:
        """What transposed, summed and broadcast axes would show at: more free axes, more kinds of shapes.

        Of as many free axes, those without axes of a fixed size: such a one may be broadcast against a count by chance.
        """
        return len(self.free), -self.bound, self.kinds, -self.order

    @property
    def bound(self) -> int:
        """How many axes have a size that the function states."""
        sizes = (self.solution.of(size) for shape in self.shapes for size in shape)
        return sum(not size.terms for size in sizes)

    @property
    def numbers(self) -> set[int]:
        """The sizes above two that the function states itself: four of a quaternion."""
        sizes = (self.solution.of(size) for shape in self.shapes for size in shape)
        stated = {size.constant for size in sizes if not size.terms and size.constant > 2}
        return stated | self.own

    @property
    def kinds(self) -> int:
        """How many different shapes there are."""
        return len({tuple(self.solution.of(size) for size in shape) for shape in self.shapes})

    def with_axis(self, place: tuple[int, int], size: Size) -> Candidate:
        """The candidate with another size of one axis of one array."""
        i, axis = place
        shape = self.shapes[i]
        changed = (*shape[:axis], size, *shape[axis + 1 :])
        return replace(self, shapes=(*self.shapes[:i], changed, *self.shapes[i + 1 :]))

    def sized(
        self,
        windows: Sequence[int] = (),
        halves: Collection[int] = (),
        *,
        slides: bool,
        tables: bool,
    ) -> Iterator[list[tuple[int, ...]]]:
        """The shapes in small sizes, the likeliest first: where a window may slide, beside tables of integers.

        `windows` are unknowns that stay short; of the `halves` an axis is twice as long, and one more.
        """
        short = {
            u: (_SHORT_HALF if u in halves else _SHORT)[i % len(_SHORT)]
            for i, u in enumerate(windows)
        }
        long = [u for u in self.free if u not in short]
        deep = len(self.shapes[0]) > 2
        usual, sliding = (_DEEP_SIZES, _DEEP_SLIDING) if deep else (_SIZES, _SLIDING)
        choices = (*sliding, *usual) if slides else usual
        odd = {2 * n + 1 for u, n in short.items() if u in halves}
        others = list(_without(choices, self.numbers | odd))
        rest = () if self.own else choices
        apart = [*filter(self._tells_apart, others), *filter(self._tells_apart, rest[:1])]
        every = (*(() if slides else apart), *others, *rest)
        leasts = (_FIRST_SIZE, *((_LEAST_WITH_TABLE,) if tables else ()))[::-1]
        for least, choice in itertools.product(leasts, every):
            sizes_of_three = len(self.free) if len(self.shapes) > 2 else None
            if _OF_THREE.get(choice, sizes_of_three) != sizes_of_three:
                continue
            sizes = [n for n in choice if n >= least]
            if not sizes:
                continue
            numbers = {u: sizes[i % len(sizes)] + i // len(sizes) for i, u in enumerate(long)}
            numbers |= short
            if tables:
                self._set_rows_apart(numbers)
            yield [
                tuple(self.solution.of(size).at(numbers) for size in shape) for shape in self.shapes
            ]

    def _set_rows_apart(self, numbers: dict[int, int]) -> None:
        """Two arrays of which one table may tell rows have not equally many, where nothing says so."""
        taken: list[Size] = []
        for shape in self.shapes:
            rows = self.solution.of(shape[0]) if shape else Size()
            if len(rows.terms) != 1 or rows in taken or rows.terms[0][0] not in numbers:
                continue
            own = rows.terms[0][0]
            others = [size for size in taken if size.terms[0][0] != own]
            while rows.at(numbers) in {size.at(numbers) for size in others}:
                numbers[own] += 1
            taken.append(rows)

    def _tells_apart(self, choice: Sequence[int]) -> bool:
        """Has each free axis a size of its own? Where two have one, a rule may take one for the other."""
        sizes = choice[: len(self.free)]
        return len(set(sizes)) == len(sizes) == len(self.free)


def count_of(shapes: Sequence[tuple[int, ...]]) -> int:
    """How many numbers arrays of these shapes hold."""
    return sum(math.prod(shape) for shape in shapes)


def _without(choices: Sequence[tuple[int, ...]], numbers: set[int]) -> Iterator[tuple[int, ...]]:
    """Sizes that differ from these numbers; nothing where there are none."""
    for choice in choices if numbers else ():
        yield tuple(n for n in choice if n not in numbers)

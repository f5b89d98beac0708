"""The order in which combinations of choices are tried: simple choices for all come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


def by_weight(options: Sequence[Sequence[Choice]], most: int) -> Iterator[tuple[Choice, ...]]:
    """So many combinations of one choice each, in the order of their positions' sum."""
    total = sum(len(o) - 1 for o in options)
    count = 0
    for weight in range(total + 1):
        for picks in _of_weight([len(o) for o in options], weight):
            if count >= most:
                return
            count += 1
            yield tuple(o[i] for o, i in zip(options, picks, strict=True))


def _of_weight(lengths: Sequence[int], weight: int) -> Iterator[tuple[int, ...]]:
    if not lengths:
        if weight == 0:
            yield ()
        return
    for first in range(min(lengths[0], weight + 1)):
        for rest in _of_weight(lengths[1:], weight - first):
            yield (first, *rest)

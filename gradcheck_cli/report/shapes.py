"""Inputs in words: all of a signature, or the shapes that a verdict rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod

from gradcheck_cli.contract.report import Input

_MOST_VALUES = 4  # of one argument
_LONGEST_VALUE = 16

Inputs = Sequence[Input]


def in_words(item: Input) -> str:
    """One input with its source: `x: float32[5 3] > 0 — the docstring`."""
    where = f"in {item.domain}" if item.domain.startswith("[") else item.domain
    what = f"{item.dtype}{_axes(item)} {where}".rstrip() if item.dtype != "fixed" else item.domain
    return f"{item.path}: {what} — {item.source}"


def shapes(inputs: Inputs, width: int) -> str:
    """The richest signature and what differs among all: `at x[5 3], weight[3], axis=-1|0`.

    Empty if nothing was judged, or nothing fits into the width.
    """
    signatures = [list(items) for _, items in groupby(inputs, key=lambda item: item.signature)]
    if not signatures:
        return ""
    richest = max(signatures, key=_richness)
    words = [*map(_array, filter(_is_array, richest)), *_differing(richest, signatures)]
    return _fitted(words, width)


def _richness(inputs: Inputs) -> tuple[int, int]:
    """Axes first, then sizes: what transposed, summed and broadcast axes would show at."""
    arrays = [item.shape for item in inputs if _is_array(item)]
    return sum(map(len, arrays)), sum(map(prod, arrays))


def _is_array(item: Input) -> bool:
    return item.dtype != "fixed" or bool(item.shape)


def _array(item: Input) -> str:
    return f"{item.path}{_axes(item)}"


def _axes(item: Input) -> str:
    return f"[{' '.join(map(str, item.shape))}]"


def _differing(richest: Inputs, signatures: Sequence[Inputs]) -> Iterator[str]:
    """The plain arguments that have several values, the richest signature's first."""
    for argument in richest:
        if _is_array(argument):
            continue
        items = [argument, *(i for s in signatures for i in s if i.path == argument.path)]
        values = list(dict.fromkeys(map(_value, items)))
        if len(values) > 1:
            more = ["…"] if len(values) > _MOST_VALUES else []
            yield f"{argument.path}={'|'.join([*values[:_MOST_VALUES], *more])}"


def _value(item: Input) -> str:
    if _is_array(item):
        return _axes(item)
    short = len(item.domain) <= _LONGEST_VALUE
    return item.domain if short else item.domain[: _LONGEST_VALUE - 1] + "…"


def _fitted(words: Sequence[str], width: int) -> str:
    """As many of the words as there is room for."""
    for count in range(len(words), 0, -1):
        left = len(words) - count
        text = f"at {', '.join(words[:count])}" + (f" and {left} more" if left else "")
        if len(text) <= width:
            return text
    return ""

"""Chains of comparisons, `ies > iis > 0` or `0 < a <= b < 1`, as a stretch for each name in which all of them hold."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_NAME = r"[^\W\d]\w*"
_SIGN = r"(?:>=|<=|[<>≤≥])"
_CHAIN = re.compile(
    rf"(?<![\w.<>=])(?:{_NUMBER}|{_NAME})(?:\s*{_SIGN}\s*(?:{_NUMBER}|{_NAME})(?![\w.]*[(\[])){{2,}}"
)
_PARTS = re.compile(rf"{_SIGN}|{_NUMBER}|{_NAME}")
_TURNED = {">": "<", ">=": "<=", "≥": "<=", "<": "<", "<=": "<=", "≤": "<="}


def without_chains(text: str, names: Collection[str]) -> str:
    """The text with bounds for each parameter where several are compared in one go."""
    return _CHAIN.sub(lambda chain: _one_by_one(chain.group(), names), text)


def _one_by_one(chain: str, known: Collection[str]) -> str:
    """Each name with its stretch; the chain itself where it has one name, other names, no number at its ends, or turns round."""
    parts = _PARTS.findall(chain)
    falls = parts[1][0] in ">≥"
    if any((sign[0] in ">≥") is not falls for sign in parts[1::2]):
        return chain
    ends = parts[::-2] if falls else parts[::2]
    signs = [_TURNED[sign] for sign in (parts[-2::-2] if falls else parts[1::2])]
    numbers = [bool(re.fullmatch(_NUMBER, end)) for end in ends]
    names = [end for end, is_number in zip(ends, numbers, strict=True) if not is_number]
    if len(names) < 2 or not set(names) <= set(known) or any(numbers[1:-1]):
        return chain
    low, high = (float(end) if is_number else None for end, is_number in ((ends[0], numbers[0]), (ends[-1], numbers[-1])))  # fmt: skip
    if low is None and high is None:
        return chain
    cuts = _cuts(low, high, len(names))
    inner = signs[low is not None : len(signs) - (high is not None)]
    below = [signs[0] if low is not None else "<", *inner]  # one of two may be at the cut
    above = [*("<=" for _ in inner), signs[-1] if high is not None else "<"]
    stretches = zip(names, itertools.pairwise(cuts), zip(below, above, strict=True), strict=True)
    return ", ".join(_stretch(*each) for each in stretches)


def _cuts(low: float | None, high: float | None, count: int) -> list[float | None]:
    """The numbers between which each of so many names stays; a step of 1 where one side is open."""
    if low is not None and high is not None:
        return [low + (high - low) * k / count for k in range(count + 1)]
    if low is not None:
        return [*(low + k for k in range(count)), None]
    assert high is not None
    return [None, *(high - k for k in range(count - 1, -1, -1))]


def _stretch(name: str, ends: tuple[float | None, float | None], signs: tuple[str, str]) -> str:
    low, high = ends
    if low is None:
        return f"{name} {signs[1]} {high:g}"
    if high is None:
        return f"{name} {'>=' if signs[0] == '<=' else '>'} {low:g}"
    return f"{low:g} {signs[0]} {name} {signs[1]} {high:g}"

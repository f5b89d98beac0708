"""Chains of comparisons, `ies > iis > 0` or `0 < a <= b < 1`: the bounds that hold for each name, and which of them is larger."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_NAME = r"[^\W\d]\w*"
_SIGN = r"(?:>=|<=|[<>≤≥])"
# No case that a text tells apart: `0 unless a > b > 0`, `a > b > 0 gives nan`.
_CHAIN = re.compile(
    rf"(?<![\w.<>=])(?<!\bif )(?<!\bfor )(?<!\bwhen )(?<!\bwhere )(?<!\bwhile )(?<!\buntil )(?<!\bunless )(?<!\bonce )"
    rf"(?:{_NUMBER}|{_NAME})(?:\s*{_SIGN}\s*(?:{_NUMBER}|{_NAME})){{2,}}(?=\s*(?:[,;)]|\.(?!\w)|$))",
    re.MULTILINE,
)
# What makes a chain a place, and its sentence a formula.
_PLACE = re.compile(r"\b(?:at|on|in|for|to|is)\s*[(:]?\s*\Z", re.IGNORECASE)
_FEW = 6  # words beside a chain that is all that a sentence says
_EXPRESSION = re.compile(r"[*/^=+]|\w\(|(?<!\w)-\s*\w|\w\s*-\s*\Z")
_PARTS = re.compile(rf"{_SIGN}|{_NUMBER}|{_NAME}")
_TURNED = {">": "<", ">=": "<=", "≥": "<=", "<": "<", "<=": "<=", "≤": "<="}


def without_chains(text: str, names: Collection[str]) -> str:
    """The text with bounds for each parameter where several are compared in one go."""
    return _CHAIN.sub(lambda chain: _one_by_one(chain.group(), names), text)


def ordered_in(sentence: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """The parameters that stand beside each other in a chain that ends at a number, the lesser one first: `Radii, 0 < inner < outer`.

    Without a number, a chain may be where something is the case: `1 where lo < x < hi`. So may one in a sentence
    that says other things, or in a formula.
    """
    bare = sentence.replace("`", "").replace("$", "")
    beside = _CHAIN.sub(" ", bare)
    if len(beside.split()) > _FEW or _EXPRESSION.search(beside) is not None:
        return
    for chain in _CHAIN.finditer(bare):
        ends, _ = _rising(chain.group())
        bounded = any(re.fullmatch(_NUMBER, end) for end in (*ends[:1], *ends[-1:]))
        if bounded and _PLACE.search(bare, 0, chain.start()) is None:
            yield from (pair for pair in pairwise(ends) if set(pair) <= set(names))


def _rising(chain: str) -> tuple[Sequence[str], Sequence[str]]:
    """What a chain compares, from the least to the largest, and the signs between; nothing where it turns round."""
    parts = _PARTS.findall(chain)
    falls = parts[1][0] in ">≥"
    if any((sign[0] in ">≥") is not falls for sign in parts[1::2]):
        return (), ()
    ends = parts[::-2] if falls else parts[::2]
    return ends, [_TURNED[sign] for sign in (parts[-2::-2] if falls else parts[1::2])]


def _one_by_one(chain: str, known: Collection[str]) -> str:
    """Each name with the numbers at the ends; the chain itself where it has one name, other names, no number there, or turns round."""
    ends, signs = _rising(chain)
    if not ends:
        return chain
    numbers = [bool(re.fullmatch(_NUMBER, end)) for end in ends]
    names = [end for end, is_number in zip(ends, numbers, strict=True) if not is_number]
    bounded = numbers[0] or numbers[-1]
    if len(names) < 2 or not set(names) <= set(known) or any(numbers[1:-1]) or not bounded:
        return chain
    low = f"{ends[0]} {signs[0]} " if numbers[0] else ""
    high = f" {signs[-1]} {ends[-1]}" if numbers[-1] else ""
    return ", ".join(_said(low, name, high) for name in names)


def _said(low: str, name: str, high: str) -> str:
    if low and not high:
        number, sign = low.split()
        return f"{name} {sign.replace('<', '>')} {number}"
    return f"{low}{name}{high}"

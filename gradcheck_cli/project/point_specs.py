"""`x=100, y=[1, 2.5], z=[[1, 2], [3, 4]]`, as `--at` has it."""

from __future__ import annotations

import itertools
import math
import re

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import AskedPoint

# The beginning of a pair: a name (dotted for a leaf of a tree).
_NAME = re.compile(r"\s*(?P<name>[^=,]+?)\s*=\s*")
_NUMBER = re.compile(r"[^,\[\]\s]+")
_ROWS = str.maketrans("[],", "   ")
_END = re.compile(r"\s*(?:,|$)")


def parse_point(text: str) -> AskedPoint:
    """Numbers by name; a lone number is a list of one, rows are a list of all."""
    pairs: dict[str, list[float]] = {}
    at = 0
    while at < len(text) or not pairs:
        name = _NAME.match(text, at)
        number = None if name is None else _value(text, name.end())
        end = None if number is None else _END.match(text, number[1])
        if name is None or number is None or end is None or not number[0]:
            raise UsageError(
                f'--at "{text}": write name=number, as in --at "x=100" or --at "x=[[1, 2], [3, 4]], y=3"'
            )
        if not all(map(math.isfinite, number[0])):
            raise UsageError(f'--at "{text}": only finite numbers are judged')
        pairs[name["name"]] = number[0]
        at = end.end()
    return AskedPoint(pairs)


def _value(text: str, start: int) -> tuple[list[float], int] | None:
    """The numbers that begin there, and where they end; none where a bracket is not closed."""
    if text[start : start + 1] != "[":
        match = _NUMBER.match(text, start)
        end = start if match is None else match.end()
    else:
        depths = itertools.accumulate({"[": 1, "]": -1}.get(c, 0) for c in text[start:])
        end = next((start + n for n, depth in enumerate(depths, 1) if depth == 0), start)
    try:
        return [float(part) for part in text[start:end].translate(_ROWS).split()], end
    except ValueError:
        return None

"""`x=100, y=[1, 2.5], z=[[1, 2], [3, 4]]`, as `--at` has it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import AskedPoint

# The beginning of a pair: a name (dotted for a leaf of a tree).
_NAME = re.compile(r"\s*(?P<name>[^=,]+?)\s*=\s*")
_NUMBER = re.compile(r"[^,\[\]\s]+")
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
    """The numbers that begin there, and where they end."""
    if text[start : start + 1] == "[":
        end = _closing(text, start)
        try:
            return list(_flat(ast.literal_eval(text[start:end]))), end
        except (ValueError, SyntaxError, TypeError):
            return None
    match = _NUMBER.match(text, start)
    try:
        return None if match is None else ([float(match.group())], match.end())
    except ValueError:
        return None


def _closing(text: str, start: int) -> int:
    """Behind the bracket that closes the one that stands there."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def _flat(value: object) -> Iterator[float]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, (int, float)):
        yield float(value)
    else:
        raise TypeError(value)

"""`x=100, y=[1, 2.5]`, as `--at` has it."""

from __future__ import annotations

import math
import re

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import AskedPoint

# One pair: a name (dotted for a leaf of a tree), and a number or a bracketed list of them, in rows or not.
_PAIR = re.compile(r"\s*([^=,]+?)\s*=\s*(\[[-+\d.eE,\s\[\]]*\]|\[[^\]]*\]|[^,\[\]]+?)\s*(?:,|$)")
_ROWS = str.maketrans("[],", "   ")


def parse_point(text: str) -> AskedPoint:
    """Numbers by name; a lone number is a list of one."""
    pairs: dict[str, list[float]] = {}
    at = 0
    while at < len(text) or not pairs:
        match = _PAIR.match(text, at)
        numbers = _numbers(match[2]) if match else None
        if match is None or not numbers:
            raise UsageError(
                f'--at "{text}": write name=number, as in --at "x=100" or --at "x=[[1, 2], [3, 4]], y=3"'
            )
        if not all(map(math.isfinite, numbers)):
            raise UsageError(f'--at "{text}": only finite numbers are judged')
        pairs[match[1]] = numbers
        at = match.end()
    return AskedPoint(pairs)


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.translate(_ROWS).split()]
    except ValueError:
        return None

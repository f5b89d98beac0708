"""`x=100, y=-2.5` as numbers by name."""

from __future__ import annotations

from gradcheck_cli.errors import UsageError


def parse_pairs(text: str) -> dict[str, float]:
    pairs: dict[str, float] = {}
    for part in text.split(","):
        name, mark, value = part.partition("=")
        try:
            pairs[name.strip()] = float(value)
        except ValueError:
            mark = ""
        if not mark or not name.strip():
            raise UsageError(f'--at "{text}": write name=number, as in --at "x=100"')
    return pairs

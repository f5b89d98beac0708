"""Writes docs/limits.md from the table in gradcheck_cli/contract/limits.py: `python scripts/limits_page.py`."""

from __future__ import annotations

import math
import re
from pathlib import Path

from gradcheck_cli.contract import limits
from gradcheck_cli.contract.limits import Limit

PAGE = Path(__file__).parent.parent / "docs" / "limits.md"

INTRODUCTION = """\
# Every number that a verdict hangs on

Formula and linearity have no tolerance: they are compared over the real numbers, and a gap is a gap. What
floats are forgiven is measured at each point: the range of the truth at inputs a few roundings away. The
numbers below say how it is measured, what is too small for any float to show, how a kink or pole is told
from a smooth place, and where cgcheck stops asking and says so. Those that a trial has fixed name the
trial; `python benchmarks/limits.py` runs it again. Those that are conventions say so.
"""
FOOT = "*Made from `gradcheck_cli/contract/limits.py` by `python scripts/limits_page.py`.*\n"

GROUPS = {
    "A": "Floats beside the truth",
    "B": "What is taken for the program",
    "C": "Where cgcheck stops asking, and says so",
    "E": "Kinks, holes, poles",
    "F": "The third opinion: the integral of a rule",
    "G": "Where float64 or differences stand in for the reals; other calls; declared intents",
    "H": "What the inputs could have shown",
    "": "Guesses, samples and explanations: no verdict hangs on these",
}


_NAME = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def table() -> dict[str, Limit]:
    return {name: row for name, row in vars(limits).items() if isinstance(row, Limit)}


def page() -> str:
    lines = [INTRODUCTION]
    for letter, title in GROUPS.items():
        lines += [
            f"## {title}",
            "",
            "| limit | value | why so big |",
            "|---|---|---|",
        ]
        for name, row in table().items():
            if row.section[:1] == letter:
                why = _NAME.sub(lambda match: in_words(match.group()), row.trial)
                cells = (in_words(name), f"{shown(row.value)} {row.unit}", why)
                lines.append(f"| {' | '.join(map(escaped, cells))} |")
        lines.append("")
    return "\n".join([*lines, FOOT])


def escaped(cell: str) -> str:
    """Words for a cell of a table: bars would end it."""
    return cell.replace("|", "\\|")


def in_words(name: str) -> str:
    """`MOVE_ULP` as people say it."""
    return name.lower().replace("_", " ")


def shown(value: float | tuple[float, ...]) -> str:
    """Small powers of two as such: nobody reads them as decimals."""
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, int):
        return str(value) if value < 10_000 else f"{value:,}".replace(",", " ")
    exponent = math.log2(value)
    if exponent == int(exponent) and exponent < -6:
        return f"2{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

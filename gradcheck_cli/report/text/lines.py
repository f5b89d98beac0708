"""Lines of the text report: pieces of text with their styles, wrapped to the width of the page."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence

Line = list[tuple[str, str]]  # pieces of (text, style)
# Bell, backspace, vertical tab, form feed, carriage return.
_MOVES = dict.fromkeys((7, 8, 11, 12, 13))


def written(lines: Iterable[Line], columns: int, *, color: bool) -> str:
    """The lines as one text, without blanks at their ends."""
    lines = list(lines)
    if not lines:
        return ""
    text = _colored(lines, columns) if color else _plain(lines)
    return "\n".join(part.rstrip() for part in text.splitlines()) + "\n"


def wrapped(text: str, width: int, indent: str, style: str) -> Iterator[Line]:
    """A text in lines of that width, each after the indent."""
    for line in textwrap.wrap(text, width - len(indent), break_on_hyphens=False) or [""]:
        yield [(indent + line, style)]


def labelled(label: str, text: str, width: int, style: str) -> Iterator[Line]:
    """A text beside its label."""
    lines = [
        part
        for raw in text.splitlines()
        for part in textwrap.wrap(raw, width - 12, break_long_words=False, break_on_hyphens=False)
        or [""]
    ]
    for i, line in enumerate(lines):
        yield [(f"    {label if i == 0 else '':<6}", "bold"), (line, style)]


def _colored(lines: Sequence[Line], columns: int) -> str:
    """The lines with the terminal's colours; what makes them is imported for these alone."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=columns + 1, highlight=False,
        soft_wrap=True, legacy_windows=False,
    )  # fmt: skip
    for line in lines:
        console.print(Text.assemble(*line), end="\n")
    return out.getvalue()


def _plain(lines: Sequence[Line]) -> str:
    """The lines without colours, and without what would move the cursor."""
    whole = "\n".join("".join(text for text, _ in line) for line in lines)
    return whole.translate(_MOVES) + "\n"

"""Output where a terminal or a pipe knows few letters: signs that it lacks are spelled in those that it has."""

from __future__ import annotations

import codecs
import sys
from typing import Any

_NAME = "cgcheck.plain"
_SPELLED = {
    "…": "...", "→": "->", "≤": "<=", "≥": ">=", "≠": "!=", "−": "-", "·": "-", "—": "-", "–": "-", "×": "x",
    "±": "+-", "√": "sqrt", "∞": "inf", "∂": "d", "Σ": "sum", "≈": "~", "ε": "eps", "½": "1/2", "¼": "1/4",
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", (f"^{digit}" for digit in range(10)), strict=True)), "⁻": "^-",
    **dict(zip("▁▂▃▄▅▆▇█", "12345678", strict=True)), "─": "-", "│": "|",
}  # fmt: skip


def spell_what_is_lacking() -> None:
    """Make standard output and error write every text, in whatever encoding they have."""
    codecs.register_error(_NAME, _spelled)
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_NAME)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLED.get(sign, "?") for sign in lacking), error.end

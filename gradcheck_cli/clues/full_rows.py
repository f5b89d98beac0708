"""Whether a text promises that no row of a mask is empty: what a function gives for one is then nobody's concern."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradcheck_cli.clues.documentation import texts_about

_PROMISED = re.compile(
    r"\bat least (?:one|1|two|2|a single|half)\b|\bnon-?empty\b|\b(?:never|not|none|no \w+) (?:is |are |be )?(?:all|empty|entirely|fully|completely)\b"
    r"|\b(?:every|each) \w+ (?:has|holds|contains|keeps) (?:one|some|a)\b",
    re.IGNORECASE,
)


def rows_are_full(function: Callable[..., Any]) -> bool:
    """Do words near the function say so?"""
    return any(_PROMISED.search(text.text) for text in texts_about(function) if text.near)

"""Whether a text speaks of negative numbers: then no name of a quantity says that there are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradcheck_cli.clues.documentation import texts_about

_SPEAKS = re.compile(
    r"(?<![\w-])(?<!non )(?<!not )(?<!never )(?<!no )negative\b(?!\s+log)|(?<![\w-])signed\b|\bminus\b|\bbelow (?:zero|0)\b|\b(?:either|both|any|opposite) signs?\b",
    re.IGNORECASE,
)


def speaks_of_signs(function: Callable[..., Any]) -> bool:
    """Does a text about the function say that something is negative, or has a sign?"""
    return any(_SPEAKS.search(text.text) for text in texts_about(function))

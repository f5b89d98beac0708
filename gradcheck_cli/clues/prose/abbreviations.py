"""Words that a parameter's name is short for: `points (B, P, 2)` says the shape of `pts`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.prose.dims import BRACKETS

_SHAPED = re.compile(rf"(?<![\w.])(?P<word>[A-Za-z]{{4,}})(?=\s*:?\s*(?:of shape\s+)?{BRACKETS})")
_LEAST = 2  # letters of a name that is short for a word


def shortened(text: str, names: Sequence[str]) -> str:
    """The text with the name in place of a word that it is short for, where a shape stands behind the word."""
    words = [match["word"] for match in _SHAPED.finditer(text)]
    for name in names:
        long = {word for word in words if _is_short_for(name, word) and word not in names}
        if len(long) == 1 and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is None:
            text = re.sub(
                rf"(?<![\w.]){long.pop()}(?=\s*:?\s*(?:of shape\s+)?{BRACKETS})", name, text
            )
    return text


def _is_short_for(name: str, word: str) -> bool:
    """Does the name begin as the word does, with letters of it in their order?"""
    letters = iter(word.lower())
    begins = len(name) >= _LEAST and name.lower()[0] == word.lower()[0]
    return begins and len(name) < len(word) and all(letter in letters for letter in name.lower())

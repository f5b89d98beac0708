"""Words that a parameter's name stands for: `points (B, P, 2)` says the shape of `pts`, `hill ids` are `hill_ids`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.prose.dims import BRACKETS

_SHAPED = re.compile(rf"(?<![\w.])(?P<word>[A-Za-z]{{4,}})(?=\s*:?\s*(?:of shape\s+)?{BRACKETS})")
_LEAST = 2  # letters of a name that is short for a word, words of one that is several


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


def in_one_word(text: str, names: Sequence[str]) -> str:
    """The text with the name in place of its words, one or several of it: `[rounds] hill ids and K points`."""
    for name in names:
        words = name.strip("_").split("_")
        known = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
        if len(words) < _LEAST or known or not all(words):
            continue
        apart = r"[ -]".join(map(re.escape, words))
        plural = "" if name.endswith("s") else "s?"
        text = re.sub(rf"(?<![\w.-]){apart}{plural}(?![\w-])", name, text, flags=re.IGNORECASE)
    return text


def _is_short_for(name: str, word: str) -> bool:
    """Does the name begin as the word does, with letters of it in their order?"""
    letters = iter(word.lower())
    begins = len(name) >= _LEAST and name.lower()[0] == word.lower()[0]
    return begins and len(name) < len(word) and all(letter in letters for letter in name.lower())

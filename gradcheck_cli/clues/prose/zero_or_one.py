"""Numbers that mark places: `missing (homes, hours) is 1 where nothing was sent`, and so 0 elsewhere."""

from __future__ import annotations

import re

from gradcheck_cli.clues.prose.dims import BRACKETS

# `where` is of places; what is 1 for an ideal gas, at a boundary, or if it rains, is any quantity.
_ONE_WHERE = re.compile(
    rf"(?P<shape>\W*{BRACKETS})?[\s,:]*(?:(?:is|are)\s+)?(?:1|ones?)\s+where(?:ver)?\s+(?P<case>(?:[^.;]|\.\d)*)",
    re.IGNORECASE,
)
_ELSE_NONE = re.compile(
    r"\b(?:0|zeros?)\s+(?:else\w*|otherwise|for the (?:rest|others?)|where(?:ver)? not)\b|\b(?:else\w*|otherwise)\s+(?:0|zeros?)\b",
    re.IGNORECASE,
)
# Other numbers beside it, or another case that may have one.
_MORE = re.compile(
    r"[2-9]|\d\.\d|[-−+±]\s?\d|\b(?:two|twice|double|otherwise|else\w*|by default|both|all|every)\b|[<>=]",
    re.IGNORECASE,
)
# What has degrees, here or in the sentences behind.
_DEGREES = re.compile(
    r"\b(?:larger|smaller|greater|more|less|lower|higher|above|below|between|soft\w*|share|fraction\w*|part(?:ial)?ly|half|tenth|third|quarter"
    r"|grows?|rises?|falls?|decays?|fades?|tapers?|smooth\w*|weights?|other places|\w+ed down)\b",
    re.IGNORECASE,
)
_NEAR = 200  # letters


def is_zero_or_one(text: str) -> bool:
    """Does the text, right behind a name, say in which places it is 1, and of no other number?

    Without the axes of an array it has to say what it is elsewhere.
    """
    said = _ONE_WHERE.match(text)
    if said is None or _DEGREES.search(text[:_NEAR]):
        return False
    rest, named = _ELSE_NONE.subn("", said["case"])
    return bool(said["shape"] or named) and _MORE.search(rest) is None

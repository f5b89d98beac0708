"""Numbers that mark places: `missing (homes, hours) is 1 where nothing was sent`, and so 0 elsewhere."""

from __future__ import annotations

import re

from gradcheck_cli.clues.prose.dims import BRACKETS

# Without a shape it may be a quantity, as a `gamma` that is 1 for an ideal gas: only `where` is of places.
_PLACES = r"where(?:ver)?"
_CASES = r"(?:where(?:ver)?|when(?:ever)?|if|at|for\s+an?)"
_IS_ONE = r"(?:(?:is|are)\s+)?(?:1|ones?)\s+"
_ONE_WHERE = re.compile(
    rf"\W*(?:{BRACKETS}[\s,:]*{_IS_ONE}{_CASES}|{_IS_ONE}{_PLACES})\s+(?P<case>(?:[^.;]|\.\d)*)",
    re.IGNORECASE,
)
_ELSE_NONE = re.compile(
    r"\b(?:0|zeros?)\s+(?:else\w*|otherwise|for the (?:rest|others?)|where(?:ver)? not)\b|\b(?:else\w*|otherwise)\s+(?:0|zeros?)\b",
    re.IGNORECASE,
)
# Other numbers beside it, or another case that may have one.
_MORE = re.compile(
    r"[2-9]|\d\.\d|[-−+±]\s?\d|\b(?:two|half|twice|double|otherwise|else\w*|by default|both|all|every|larger|smaller|greater|more|less|higher|lower|above|below|between|share|fraction|up to|grows|rises|falls|decays)\b|[<>=]",
    re.IGNORECASE,
)


def is_zero_or_one(text: str) -> bool:
    """Does the text, right behind a name, say in which places it is 1, and of no other number?"""
    said = _ONE_WHERE.match(text)
    return said is not None and _MORE.search(_ELSE_NONE.sub("", said["case"])) is None

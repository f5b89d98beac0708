"""What a text promises of a table: that no two of its integers, or of its pairs of integers, are alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.prose.passages import Passage

_PLACES = (
    r"(?:ids?|ind(?:ices|exes)|pairs|triples|tuples|rows|columns|cells|places|positions|slots"
    r"|entries|sites|nodes|locations|integers|ints|keys|numbers|ranks|bins|offsets|targets)"
)
_ONE_PLACE = r"(?:id|index|pair|triple|row|column|cell|place|position|slot|entry|site|node)"
_PROMISED = re.compile(
    rf"\b(?:distinct|unique|non-?repeating) (?:\w+ ){{0,2}}{_PLACES}\b"
    r"|\b(?:all|mutually|pairwise) (?:distinct|unique|different)\b"
    r"|\b(?:distinct|unique)\s*(?=[,.;)]|$)"
    rf"|\bno two (?:of them |{_PLACES} )?(?:are )?(?:alike|equal|the same)\b|\bno {_ONE_PLACE} twice\b"
    r"|\b(?:no|without) (?:repeats?|repetitions?|duplicates?|replacement)\b"
    r"|\b(?:at most|exactly|only) once\b|\bpermutations?\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|need|may|can|might|never|non|number of)\b[\w\s-]{0,24}$", re.IGNORECASE)  # fmt: skip
_FAR = 90  # characters behind a name in a sentence: what stands farther off is about something else


def are_distinct(spoken: Sequence[Passage]) -> bool:
    """Does an entry of the parameter promise it, or a sentence soon behind its name?"""
    return any(_promises(p.after if p.entry else p.after[:_FAR]) for p in spoken)


def _promises(text: str) -> bool:
    found = (match.start() for match in _PROMISED.finditer(text))
    return any(not _DENIED.search(text[:start]) for start in found)

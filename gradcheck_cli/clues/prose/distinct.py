"""What a text promises of a table: that no two of its integers, or of its pairs of integers, are alike.

Only plain promises about the table itself are heard: a wrong one would hide a scatter that overwrites.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.prose.passages import Passage

_PLACES = (
    r"(?:ids?|ind(?:ices|exes)|pairs|triples|tuples|rows|columns|cells|places|positions|slots"
    r"|entries|sites|nodes|locations|integers|ints|keys|numbers|ranks|bins|offsets|targets)"
)
_ONE = r"(?:id|index|pair|triple|row|column|cell|place|position|slot|entry|site|node|one)"
# What leads the words of an entry: its beginning, its shape, its type, a comma.
_LEAD = (
    r"(?:^|[,;:)\]]|\bintegers?|\bints?|\bint(?:8|16|32|64)|\b(?:array|table|tensor|list) of"
    r"|\b(?:in (?:each|every)|per) row,?|\bsorted and)\s*"
)
_ENDS = r"(?=\s*(?:[.;)]|$))"
_GOES_ON = r"(?=\s*(?:[.,;)]|$|and (?:below|in|within|sorted|ascending|non-?negative|between)\b))"
_SUBJECT = rf"(?:^|\b(?:they|these|all|{_PLACES}) )\s*"
_PROMISED = re.compile(
    rf"{_LEAD}(?:all |mutually |pairwise )?(?:distinct|unique|non-?repeating)"
    rf"(?:(?: \w+){{0,2}} {_PLACES}(?:{_GOES_ON}|(?=\s*\(|\s+(?:of|in|into|below|within)\b))|{_GOES_ON})"
    rf"|{_SUBJECT}(?:are|must be|must all be) (?:all |mutually |pairwise )?(?:distinct|unique|different){_GOES_ON}"
    rf"|\ball {_PLACES} (?:distinct|unique|different){_GOES_ON}|{_LEAD}(?:all|mutually|pairwise) different{_GOES_ON}"
    rf"|\bno two (?:of them |{_PLACES} )?(?:are )?(?:alike|equal|the same){_GOES_ON}"
    rf"|\bno {_ONE} (?:(?:is|appears|occurs|comes|stands)(?: \w+)? )?twice{_GOES_ON}"
    rf"|\b(?:no|without) (?:repeats?|repetitions?|repeated {_PLACES}|duplicates?){_ENDS}"
    rf"|\b(?:each|every) {_ONE} (?:\w+ ){{1,3}}at most once{_GOES_ON}"
    rf"|{_LEAD}(?:is )?(?:a|the) permutation(?:{_GOES_ON}|(?=\s+of\b))"
    r"|\b(?:lists?|ranks) (?:all )?the \w+s from the \w+est (?:on|to|down|up|out)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|need|never|whether|if|unless|no requirement|nor|with or)\b|n't\b)[^.;]*$",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"[^.;]*\b(?:or|but|may|can|usually|mostly|hopefully|otherwise|except|unless|if|when|faster)\b",
    re.IGNORECASE,
)
_FAR = 90  # characters behind a name in a sentence: what stands farther off is about something else


def are_distinct(spoken: Sequence[Passage]) -> bool:
    """Does an entry of the parameter promise it, or a sentence soon behind its name?"""
    return any(_promises(p.after if p.entry else p.after[:_FAR]) for p in spoken)


def _promises(text: str) -> bool:
    plain = " ".join(text.split())
    return any(
        not _DENIED.search(plain[: match.start()]) and not _TAKEN_BACK.match(plain, match.end())
        for match in _PROMISED.finditer(plain)
    )

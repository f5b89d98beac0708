"""Several parameters told of in one entry, in their order or by their names: `mean, sigma: position and width (> 0)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradcheck_cli.clues.prose.dims import BRACKETS

_HEAD = re.compile(r"\s*(?:,|/|\band\b|&)\s*")
_BETWEEN = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
_SENTENCE = re.compile(r"[.;](?:\s|$)")
_SAID_OF_ONE = re.compile(r"[\[(]\s*(?:>=|<=|≥|≤|>|<|positive|non-?negative|in\s*[\[(])")
_INSIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def own_words(head: str, text: str, name: str) -> str:
    """What the text says of this one of the names in an entry's head; nothing where it does not go one by one."""
    names = [part.strip("`* ") for part in _HEAD.split(head.strip()) if part]
    if len(names) < 2 or name not in names:
        return ""
    first = _first_sentence(re.sub(rf"^\W*shape\s*{BRACKETS}", "", text))
    items = _items(first)
    behind = _items(re.sub(rf"^\s*{BRACKETS}\s*", "", first))
    led = {lead: rest for lead, _, rest in (item.partition(" ") for item in behind)}
    if set(names) <= set(led):  # `p, y (n,): p a probability, y binary`
        return led[name]
    if len(items) != len(names) or not any(map(_SAID_OF_ONE.search, items)):
        return ""
    return items[names.index(name)]


def _items(sentence: str) -> Sequence[str]:
    """The parts between commas and `and`s that stand in no brackets."""
    masked = _masked(sentence)
    cuts = [match.span() for match in _BETWEEN.finditer(masked)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(sentence)]
    return [sentence[a:b].strip() for a, b in zip(starts, ends, strict=True)]


def _first_sentence(text: str) -> str:
    end = _SENTENCE.search(_masked(text))
    return text if end is None else text[: end.start()]


def _masked(text: str) -> str:
    """The text with marks for what stands in brackets."""
    return _INSIDE.sub(lambda match: "_" * len(match[0]), text)

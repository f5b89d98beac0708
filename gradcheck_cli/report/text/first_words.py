"""Words of ours that a newcomer may not know, explained where a page has them first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# A word where it stands, and what it means.
_MEANINGS = {
    re.compile(r"evidence: certified(?: at the shapes tried)?"): "by proved error bounds",
    re.compile(r"\b\d+ probes?\b"): "inputs with a cotangent each",
    re.compile(r"\bat a kink\b"): "where the slopes of two sides differ",
}


@dataclass(slots=True)
class FirstWords:
    """The words that a page has explained."""

    _said: set[re.Pattern[str]] = field(default_factory=set)

    def explain(self, text: str) -> str:
        """The text, with the meaning behind each word that stands in it first."""
        for word, meaning in _MEANINGS.items():
            if word not in self._said and (found := word.search(text)) is not None:
                self._said.add(word)
                text = f"{text[: found.end()]} ({meaning}){text[found.end() :]}"
        return text

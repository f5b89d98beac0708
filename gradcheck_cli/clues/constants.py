"""Arguments that a text takes as constants, and those that it says are learned."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import Text, texts_about
from gradcheck_cli.clues.prose.passages import SENTENCE_END, passages, plain
from gradcheck_cli.inputs.clue import Clue

_END = r"(?=\s*(?:[.,;)]|$))"
_CONSTANT = re.compile(
    r"\b(?:taken|treated|held|regarded|considered) (?:as )?(?:an? )?(?:constants?|fixed)\b"
    r"|\b(?:gets?|has|have|receives?) no gradients?\b(?!,?\s+(?:at|where|if|when|outside|of|beyond|for|in|on|under|below|above|through))|\bnot differentiated\b"
    rf"|(?:^|[.,;():])\s*no (?:gradients?|derivatives?)(?:\s+(?:(?:is|are)\s+)?(?:flows?|given|returned|computed|propagated|needed|taken))?(?:\s+(?:for|to|through) it)?{_END}"
    rf"|[,;]\s*(?:an? )?constants?{_END}"
    r"|[,;(]\s*(?:observed |fixed |given )?(?:data|observed|fixed|not (?:learned|learnt|trained))(?=\s*(?:[.,;)]|$))",
    re.IGNORECASE,
)
_LEARNED = re.compile(
    r"(?<!not )(?<!non-)\b(?:differentiable|learn(?:ed|t|able)|train(?:ed|able)|fitted|calibrated)\b"
    r"|(?<!no )\b(?:gradients?|derivatives?|sensitivit(?:y|ies)) (?:for|in|of|to|with respect to|w\.?r\.?t\.?) "
    r"|\bdifferentiates? (?:in|by|with respect to|w\.?r\.?t\.?) ",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|never|without|no|stop(?:s|ped)?|blocks?|non|neither)\b|n't\b", re.IGNORECASE
)


def clues(function: Callable[..., Any], names: Sequence[str]) -> dict[str, list[Clue]]:
    """A clue for each parameter of which a text about this very function says so."""
    near = [text for text in texts_about(function) if text.near]
    said = {name: [t.source for t in near if _says_so(t, name, names)] for name in names}
    return {name: [Clue(sources[0], constant=True)] for name, sources in said.items() if sources}


def _says_so(text: Text, name: str, names: Sequence[str]) -> bool:
    spoken = passages(plain(text.text), name, [n for n in names if n not in text.hidden])
    own = (p.after if p.entry else p.alone for p in spoken if not p.common_word)
    return any(map(_CONSTANT.search, own))


def learned(function: Callable[..., Any], names: Sequence[str]) -> frozenset[str]:
    """The parameters that a text about this very function differentiates, or says to be learned."""
    near = "\n".join(plain(text.text) for text in texts_about(function) if text.near)
    sentences = [" ".join(sentence.split()) for sentence in SENTENCE_END.split(near)]
    said = [
        s
        for s in sentences
        if _LEARNED.search(s) and not (_CONSTANT.search(s) or _DENIED.search(s))
    ]
    return frozenset(n for n in names if any(re.search(rf"\b{re.escape(n)}\b", s) for s in said))

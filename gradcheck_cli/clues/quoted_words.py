"""Words that a text quotes beside the default of an option, without a word of the option: `'add' keeps …, 'mix' fades`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.prose.passages import SENTENCE_END
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter

_QUOTED = re.compile(
    r"(?<![\w'\"])(?:``)?(?P<mark>['\"])(?P<word>[A-Za-z][\w-]*)(?P=mark)(?:``)?(?![\w'\"])"
)
_MOST = 5


def clues(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, Clue]:
    """For each option whose default a sentence quotes, the words that it quotes."""
    words = {p.name: p.default for p in parameters if isinstance(p.default, str)}
    if not words:
        return {}
    near = [text for text in texts_about(function) if text.near]
    sentences = [(t.source, s) for t in near for s in SENTENCE_END.split(t.text)]
    found: dict[str, Clue] = {}
    for name, default in words.items():
        for source, sentence in sentences:
            quoted = tuple(dict.fromkeys(m["word"] for m in _QUOTED.finditer(sentence)))
            alone = [n for n, other in words.items() if other in quoted] == [name]
            if default in quoted and alone and 1 < len(quoted) <= _MOST:
                others = (word for word in quoted if word != default)
                found.setdefault(name, Clue(source, values=(default, *others), kind=Kind.WORD))
    return found

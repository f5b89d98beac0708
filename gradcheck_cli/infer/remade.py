"""Objects of a configuration's class, or of a method's, that are made with other settings than their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gradcheck_cli.clues.documentation import text_of_class
from gradcheck_cli.discover.makers import construction
from gradcheck_cli.discover.settings_objects import with_other_words
from gradcheck_cli.inputs.names import says_a_sign
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.subject.user_code import UserCodeError

_SIGNS = re.compile(
    r"(?<![\w.])\+1(?:\.0*)?\b[^;\n]*(?<![\w.])[-−]1\b|(?<![\w.])[-−]1(?:\.0*)?\b[^;\n]*(?<![\w.])\+1\b"
    r"|(?<![\w.])1\s*(?:/|or|,)\s*[-−]1\b|±\s*1\b"
)


def remade(cls: Any) -> Iterator[Fixed]:
    """Objects of the class with other words, then made with other plain arguments: all moved at once, else each by itself."""
    made = construction(cls)
    if made is None:
        return
    yield from with_other_words(made.instance)
    told = text_of_class(cls).text
    moved = {
        name: _moved(setting.value, is_sign=says_a_sign(name) or _tells_signs(name, told))
        for name, setting in made.call.settings.items()
        if type(setting.value) in (bool, int, float)
    }
    for changed in (moved, *({name: value} for name, value in moved.items())) if moved else ():
        text = f"{cls.__name__}({', '.join(f'{n}={v!r}' for n, v in changed.items())})"
        try:
            yield Fixed(made.call.again(changed), text, "made with other settings")
        except UserCodeError:
            continue
        if changed is moved:
            return


def _tells_signs(name: str, text: str) -> bool:
    """Is the setting one of two signs: `polarity: +1 n-channel, -1 p-channel`?"""
    entry = re.search(rf"^\s*`*{re.escape(name)}\b.*$", text, re.MULTILINE)
    return entry is not None and _SIGNS.search(entry.group()) is not None


def _moved(value: object, *, is_sign: bool) -> bool | int | float:
    """A flag or a sign the other way, one more, three quarters."""
    if isinstance(value, bool):
        return not value
    if is_sign and value in (1, -1) and isinstance(value, (int, float)):
        return -value
    if isinstance(value, int):
        return value + 1
    return 0.75 * (value or 1 / 3) if isinstance(value, float) else 0.25

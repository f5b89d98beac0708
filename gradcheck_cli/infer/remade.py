"""Objects of a configuration's class, or of a method's, that are made with other settings than their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradcheck_cli.discover.makers import construction
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.subject.user_code import UserCodeError


def remade(cls: Any) -> Iterator[Fixed]:
    """Objects of the class that are made with other plain arguments: all moved at once, else each by itself."""
    made = construction(cls)
    if made is None:
        return
    moved = {
        name: _moved(setting.value)
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


def _moved(value: object) -> bool | int | float:
    """A flag the other way, one more, three quarters."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 0.75 * (value or 1 / 3) if isinstance(value, float) else 0.25

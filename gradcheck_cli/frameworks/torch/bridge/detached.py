"""`detach` in a forward function of which no output has a history: its gradient is that of what it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_UNNOTICED: ContextVar[bool] = ContextVar("unnoticed", default=False)


@contextlib.contextmanager
def unnoticed(on: bool) -> Iterator[None]:
    """What is traced takes no notice of `detach`."""
    token = _UNNOTICED.set(on)
    try:
        yield
    finally:
        _UNNOTICED.reset(token)


def detach_as_told(cls: Any) -> None:
    """Let the traced tensors of a class be detached only where that is noticed."""
    own = cls.detach

    def detach(self: Any) -> Any:
        if _UNNOTICED.get():
            return self
        made = own(self)
        made.detached_from = self  # with which it shares its memory
        return made

    cls.detach = detach

"""The seed that each call of user code starts from, where a framework keeps the state of its draws itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_SEED = 2026
_shift = [0]


def seed() -> int:
    return _SEED + _shift[0]


@contextmanager
def another(shift: int) -> Iterator[None]:
    """Inside, every call draws other numbers than outside."""
    before = _shift[0]
    _shift[0] = shift
    try:
        yield
    finally:
        _shift[0] = before

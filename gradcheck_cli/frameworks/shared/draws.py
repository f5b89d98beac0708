"""The seed that each call of user code starts from, where a framework keeps the state of its draws itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gradcheck_cli.contract.limits import DRAWS_SEED

_SHIFT = ContextVar("shift", default=0)


def seed() -> int:
    return DRAWS_SEED.value + _SHIFT.get()


@contextmanager
def another(shift: int) -> Iterator[None]:
    """While active, every call draws other numbers than outside."""
    before = _SHIFT.set(shift)
    try:
        yield
    finally:
        _SHIFT.reset(before)

"""The progress of a sweep: one changing line on standard error, with rate and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradcheck_cli.contract.sweep_map import Swept

_CELLS = 24
_EVERY = 0.2  # seconds


@contextmanager
def bar() -> Iterator[Callable[[Swept, int], None]]:
    """A function that takes each part of a sweep and how many are done, and redraws the line."""
    if not sys.stderr.isatty():
        yield lambda part, done: None
        return
    begun, shown, new, floats = time.monotonic(), 0.0, 0, 0

    def tell(part: Swept, done: int) -> None:
        nonlocal shown, new, floats
        new, floats = new + 1, floats + part.floats
        now = time.monotonic()
        if now - shown < _EVERY and done < part.parts:
            return
        shown = now
        took = max(now - begun, 1e-3)
        left = took / new * (part.parts - done)
        full = _CELLS * done // part.parts
        sys.stderr.write(
            f"\r\x1b[K[{'█' * full}{'·' * (_CELLS - full)}] {100 * done // part.parts:3d} %  "
            f"{floats / took / 1e6:.1f} M floats/s  {int(left) // 60:02d}:{int(left) % 60:02d} left"
        )
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

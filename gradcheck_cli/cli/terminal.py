"""What goes on, as one changing line on standard error: the files of a run, or the floats of a sweep with rate and time left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gradcheck_cli.contract.sweep_map import Swept
from gradcheck_cli.contract.worker import Doing, Event

_CLEAR = "\r\x1b[K"
_WIDTH = 78
_CELLS = 24
_EVERY = 0.2  # seconds


def _is_shown() -> bool:
    """Is there a terminal? Whoever started us may have closed even that."""
    return sys.stderr is not None and sys.stderr.isatty()


def clear_line() -> None:
    """Take the line away, so that something else can be written; it comes again by itself."""
    if _is_shown():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def leave_standard_output() -> None:
    """Nobody reads it any more, as behind `| head`: what is still held for it goes nowhere, and ends nothing."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress(files: int) -> Iterator[Callable[[str, Event | None], None]]:
    """A function that takes what is done in a file, or None when all of it is, and redraws the line."""
    if not _is_shown():
        yield lambda display, event: None
        return
    finished = 0

    def show(display: str, event: Event | None) -> None:
        nonlocal finished
        finished += event is None
        what = f"{event.gradient or ''} {event.text}" if isinstance(event, Doing) else ""
        text = f"[{finished}/{files}] {display} {what}".strip()
        sys.stderr.write(f"{_CLEAR}{text[:_WIDTH]}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        clear_line()


@contextmanager
def bar() -> Iterator[Callable[[Swept, int], None]]:
    """A function that takes each part of a sweep and how many are done, and redraws the line."""
    if not _is_shown():
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
            f"{_CLEAR}[{'█' * full}{'·' * (_CELLS - full)}] {100 * done // part.parts:3d} %  "
            f"{floats / took / 1e6:.1f} M floats/s  {int(left) // 60:02d}:{int(left) % 60:02d} left"
        )
        sys.stderr.flush()

    try:
        yield tell
    finally:
        clear_line()

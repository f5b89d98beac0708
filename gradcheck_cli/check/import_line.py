"""The statement of a file that its import has come to, told while it takes long: if it never ends, that is what hangs."""

from __future__ import annotations

import ast
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

_TOP = "<module>"  # as the code at the top of a file is called
_PACE = 0.2  # seconds between two looks

Tell = Callable[[int], None]


@contextlib.contextmanager
def told_meanwhile(path: str, tell: Tell) -> Iterator[None]:
    """While active, the line of each statement of this file that the calling thread has come to is told, now and then."""
    over = threading.Event()
    ours = threading.get_ident()
    watch = threading.Thread(target=_watch, args=(path, tell, over, ours), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(path: str, tell: Tell, over: threading.Event, thread: int) -> None:
    last, begin = 0, None
    while not over.wait(_PACE):
        begin = _statements(path) if begin is None else begin
        here = _line(sys._current_frames().get(thread), path)
        line = max((first for first in begin if first <= here), default=0)
        if line and line != last:
            last = line
            tell(line)


def _statements(path: str) -> list[int]:
    """The lines at which the statements of a file begin; in a loop of many lines the clock says which one is met."""
    try:
        return [node.lineno for node in ast.parse(Path(path).read_text(encoding="utf-8")).body]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


def _line(frame: FrameType | None, path: str) -> int:
    """The line that the file itself has come to; 0 if it does not run."""
    while frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) != (path, _TOP):
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno

"""Our own work ends before the worker is killed for it: what was found until then is told.

User code that hangs is not interrupted here: the parent kills it, and says at which input.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

_SHARE = 0.85  # of the time that the worker has
_EARLY = 0.25  # of it: what begins later and is cut off has another worker
_AGAIN = 0.5  # seconds after which it is looked again whether it is our own work that goes on


class OutOfTime(BaseException):
    """Not an error of anything: no handler on the way may swallow it."""


class Clock:
    """Runs from the start of the worker; `ours` says whether what runs now is our own work."""

    def __init__(self, seconds: float | None) -> None:
        self.ours = False
        self.rang = False
        can = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self._end = time.monotonic() + seconds * _SHARE if seconds is not None and can else None
        self._seconds = seconds
        self._first: float | None = None  # when the first gradient began
        self.began_late = False

    def begin(self) -> None:
        """A gradient begins: has much of the time gone to those before it?"""
        now = time.monotonic()
        if self._first is None:
            self._first = now
        elif self._seconds is not None:
            self.began_late = now - self._first > self._seconds * _EARLY

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While active, `OutOfTime` is raised once the share is used up and the work is ours."""
        if self._end is None:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, max(self._end - time.monotonic(), _AGAIN))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _ring(self, *_: Any) -> None:
        # Again in any case: an exception that is raised within a finalizer or a hook of the collector is lost.
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        if self.ours:
            self.rang = True
            raise OutOfTime

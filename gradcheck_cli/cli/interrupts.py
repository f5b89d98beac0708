"""A request to end, as CI sends one when a job is cancelled, is an interrupt like any other."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heeding_termination() -> Iterator[None]:
    """While active, SIGTERM interrupts, so that what is done can still be told."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

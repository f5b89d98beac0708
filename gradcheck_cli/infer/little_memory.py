"""Calls that are made up may ask for more memory than there is: these are refused, and the worker lives on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_MORE = 4 << 30  # bytes beyond those that are in use
_NOW = Path("/proc/self/statm")  # its first number: how many pages


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """While active, the system refuses much more memory than is in use; only Linux tells how much that is."""
    in_use = _in_use()
    if in_use is None:
        yield
        return
    import resource

    least, most = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (least, most) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([in_use + _MORE, *limits]), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (least, most))


def _in_use() -> int | None:
    try:
        import resource

        pages = int(_NOW.read_text(encoding="ascii").split()[0])
    except (ImportError, OSError, ValueError):
        return None
    return pages * resource.getpagesize()

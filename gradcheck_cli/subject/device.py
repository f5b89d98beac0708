"""Where the framework's floats run: on the CPU, or on the GPU that was asked for.

What stands beside the floats stays on the CPU in any case: which inputs are taken, what is traced, and the
truth. A GPU compiles slowly, and a table read out of its bounds there ends all that the process could do.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, cast

_VARIABLE = "CGCHECK_DEVICE"
_MEASURING: ContextVar[bool] = ContextVar("measuring", default=False)

P = ParamSpec("P")
R = TypeVar("R")


def asked_for() -> str:
    """The device that the user named, for this process."""
    return os.environ.get(_VARIABLE, "cpu")


def measures_on_gpu() -> bool:
    """Is something measured just now, and wanted on a GPU?"""
    return _MEASURING.get() and asked_for() == "gpu"


@contextmanager
def measuring(*, on: bool = True) -> Iterator[None]:
    """While active, new arrays are made where floats are measured (or, if not `on`, beside that)."""
    before = _MEASURING.set(on)
    try:
        yield
    finally:
        _MEASURING.reset(before)


def seen_on_the_cpu(call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What the call gives, after it was seen to run on the CPU: whatever raises there must not reach a GPU."""
    if measures_on_gpu():
        with measuring(on=False):
            call(*args, **kwargs)
    return call(*args, **kwargs)


class Placed(Protocol):
    """What has floats that can be measured on a device."""

    def placed(self) -> AbstractContextManager[None]: ...


M = TypeVar("M", bound=Callable[..., Any])


def measured(method: M) -> M:
    """A method of something placed, whose floats run on the device that was asked for."""

    @functools.wraps(method)
    def on_the_device(self: Placed, *args: Any, **kwargs: Any) -> Any:
        with self.placed():
            return method(self, *args, **kwargs)

    return cast(M, on_the_device)

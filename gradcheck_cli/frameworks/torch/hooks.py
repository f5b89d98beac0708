"""Calls of Functions as they are watched, and as they are replaced.

torch keeps every subclass of Function, so nothing has to be recorded while a module is imported.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradcheck_cli.frameworks.torch.triton.arrival import interpret_kernels
from gradcheck_cli.subject.device import asked_for
from gradcheck_cli.subject.protocol import Note
from gradcheck_cli.subject.results import Found

_MODULE: Any = torch.autograd.function
_HOOK = "_cgcheck_apply"


class _Code:
    """Code for `Function.apply` that asks the hook; it has the cell that torch's own has."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        __class__  # type: ignore[name-defined]  # noqa: B018
        return _cgcheck_apply(cls, *args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


@contextmanager
def recording() -> Iterator[list[Found]]:
    """Nothing has to be recorded; kernels that are imported now are interpreted, unless a GPU was asked for."""
    if asked_for() != "gpu":
        interpret_kernels()
    yield []


@contextmanager
def watching(note: Note) -> Iterator[None]:
    """While active, every call of a Function is noted."""

    def hook(original: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
        note(cls, args, kwargs)
        return original(cls, *args, **kwargs)

    with calls_through(hook):
        yield


@contextmanager
def calls_through(hook: Callable[..., Any]) -> Iterator[None]:
    """While active, each call of a Function is hook(torch's own `apply`, the class, *its arguments).

    `apply` may be bound to a name already, so it is its code that is exchanged.
    """
    apply = torch.autograd.Function.__dict__["apply"].__func__
    code = apply.__code__
    original = types.FunctionType(code, apply.__globals__, "apply", apply.__defaults__, apply.__closure__)  # fmt: skip
    setattr(_MODULE, _HOOK, functools.partial(hook, original))
    apply.__code__ = _Code.apply.__code__
    try:
        yield
    finally:
        apply.__code__ = code
        delattr(_MODULE, _HOOK)

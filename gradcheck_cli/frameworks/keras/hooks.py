"""Import hooks: every custom gradient of Keras is recorded at the moment it is made.

A grad function of `keras.ops.custom_gradient` is the backend's own kind of custom gradient, and the
backend's hooks see it; only PyTorch's form is a class of Keras.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from gradcheck_cli.frameworks.keras import backend
from gradcheck_cli.frameworks.keras.private_api import custom_gradient_on_torch
from gradcheck_cli.subject.results import Found

KIND = "custom_gradient"


def recording() -> AbstractContextManager[list[Found]]:
    """While active, every custom gradient that is made is listed."""
    return _recording_on_torch() if backend.name() == "torch" else backend.framework().recording()


@contextmanager
def _recording_on_torch() -> Iterator[list[Found]]:
    cls = custom_gradient_on_torch()
    objects: list[Found] = []
    init = cls.__init__

    def noted(self: Any, forward_fn: Any) -> None:
        init(self, forward_fn)
        objects.append(Found(self, KIND, *source(forward_fn)))

    cls.__init__ = noted
    try:
        yield objects
    finally:
        cls.__init__ = init


def source(function: Any) -> tuple[str, int]:
    """File and line of a function."""
    code = getattr(function, "__code__", None)
    return ("", 1) if code is None else (code.co_filename, code.co_firstlineno)

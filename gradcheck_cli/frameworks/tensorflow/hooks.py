"""Import hooks: every custom gradient, and every registered one, is recorded when it is made.

`tf.custom_gradient` makes a `Bind` whatever alias it is called by, and `tf.RegisterGradient` goes
through one method: these two are watched, so that nested and dropped ones are seen as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, REGISTERED
from gradcheck_cli.frameworks.tensorflow.private_api import custom_gradient, decorated, ops
from gradcheck_cli.subject.protocol import Note
from gradcheck_cli.subject.results import Found

BIND: Any = custom_gradient.Bind


@contextmanager
def recording() -> Iterator[list[Found]]:
    """While active, every custom gradient that is made is listed."""
    objects: list[Found] = []
    init, registered = BIND.__init__, ops.RegisterGradient.__call__

    def note_bind(self: Any, function: Any, decorator: Any) -> None:
        init(self, function, decorator)
        objects.append(_recorded(self, function, CUSTOM))

    def note_registered(self: Any, function: Any) -> Any:
        result = registered(self, function)
        recorded = _recorded(function, function, REGISTERED)
        recorded.extra["op"] = self._op_type
        objects.append(recorded)
        return result

    BIND.__init__, ops.RegisterGradient.__call__ = note_bind, note_registered
    try:
        yield objects
    finally:
        BIND.__init__, ops.RegisterGradient.__call__ = init, registered


@contextmanager
def bypassed(own: Callable[[str], bool]) -> Iterator[list[str]]:
    """While active, the user's own custom gradients are their bodies alone; the bypassed are listed by name."""
    call = BIND.__call__
    names: list[str] = []

    def body(self: Any, *args: Any, **kwargs: Any) -> Any:
        path, _ = source(decorated(self))
        if not own(path):
            return call(self, *args, **kwargs)
        names.append(getattr(decorated(self), "__name__", ""))
        return decorated(self)(*args, **kwargs)[0]

    BIND.__call__ = body
    try:
        yield names
    finally:
        BIND.__call__ = call


@contextmanager
def watching(note: Note) -> Iterator[None]:
    """While active, every call of a custom gradient is noted."""
    call = BIND.__call__

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self, args, kwargs)
        return call(self, *args, **kwargs)

    BIND.__call__ = noted
    try:
        yield
    finally:
        BIND.__call__ = call


def source(function: Any) -> tuple[str, int]:
    """File and line of what the user wrote, under decorators, partials and methods."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return ("", 1) if code is None else (code.co_filename, code.co_firstlineno)


def _recorded(thing: object, function: Any, kind: str) -> Found:
    path, line = source(function)
    return Found(thing, kind, path, line)

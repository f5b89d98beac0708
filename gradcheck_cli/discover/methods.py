"""A method without its object: a function of what the object is made from, and of its own arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def attribute(module: ModuleType, name: str) -> Any:
    """What a dotted name leads to; a method of a class as a function that makes its object first."""
    owner: Any = None
    thing: Any = module
    for part in name.split("."):
        owner, thing = thing, getattr(thing, part, None)
    if inspect.isclass(owner) and inspect.isfunction(thing):
        kept = inspect.getattr_static(owner, name.rpartition(".")[2], None)
        return thing if isinstance(kept, staticmethod) else with_object(owner, thing)
    return thing


def with_object(cls: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method as a function: (arguments of `__init__`, its own arguments) → its result."""
    try:
        construction = [p for p in inspect.signature(cls).parameters.values() if _needed(p)]
        own = [
            p for p in list(inspect.signature(method).parameters.values())[1:] if p.kind not in _ANY
        ]
    except (TypeError, ValueError):
        return method
    taken = {p.name for p in construction}
    own = [p.replace(name=f"{p.name}_" if p.name in taken else p.name) for p in own]
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    count = len(construction)

    @functools.wraps(method)
    def call(*args: Any) -> Any:
        return method(cls(*args[:count]), *args[count:])

    parameters = [p.replace(kind=plain) for p in (*construction, *own) if _needed(p)]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in _ANY

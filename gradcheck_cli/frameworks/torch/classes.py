"""Classes of `torch.autograd.Function`: those that are alive, where they stand, and how a factory makes them anew."""

from __future__ import annotations

import functools
import gc
import inspect
import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from gradcheck_cli.discover.makers import Maker
from gradcheck_cli.frameworks.shared.made_anew import Anew, settings_of
from gradcheck_cli.frameworks.torch.adopt import of_class
from gradcheck_cli.frameworks.torch.gradient import PARTS, TorchGradient
from gradcheck_cli.subject.results import Place


def functions() -> Iterator[Any]:
    """Every subclass of Function that is alive, inherited ones too."""
    listed: set[type] = set()
    waiting: list[Any] = [torch.autograd.Function]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            if cls not in listed:
                listed.add(cls)
                waiting.append(cls)
                yield cls


def class_place(cls: Any) -> Place | None:
    """The line of `class`, found upwards from the class's own forward (or backward)."""
    own = cls.__dict__.get("forward") or cls.__dict__.get("backward") or cls.forward
    place = place_of(getattr(own, "__func__", own), cls.__qualname__)
    if place is None:
        return None
    for line in range(place.line, 0, -1):
        if re.match(
            rf"\s*class\s+{re.escape(cls.__name__)}\b", linecache.getline(place.path, line)
        ):
            return Place(place.path, line, place.qualname)
    return place


def place_of(function: Any, qualname: str) -> Place | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else Place(code.co_filename, code.co_firstlineno, qualname)


def made_anew(gradient: TorchGradient, maker: Maker | None) -> TorchGradient:
    """The gradient with the settings of the factory that made it among its arguments."""
    names = [parameter.name for parameter in gradient.parameters()]
    code = next(iter(gradient.rule_code()), None)
    settings = {} if maker is None else settings_of(maker, code, names)
    if maker is None or not settings:
        return gradient
    parts = tuple(part for part in PARTS if getattr(gradient, part) is not None)
    anew = Anew(settings, functools.partial(_again, maker, gradient.place), parts)
    return anew.dressed(replace(gradient, anew=anew), gradient)


def _again(maker: Maker, place: Place, given: Mapping[str, object]) -> TorchGradient | None:
    """What the factory makes of the same definition with other settings."""
    gc.disable()
    try:
        known = list(functions())
        maker.again(given)
        new = [cls for cls in functions() if cls not in known and class_place(cls) == place]
    finally:
        gc.enable()
    return of_class(new[-1], place) if new else None

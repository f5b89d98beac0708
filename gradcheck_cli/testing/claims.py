"""Which framework an object belongs to: a custom gradient of one, or a plain function that uses it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from gradcheck_cli.frameworks.load import load
from gradcheck_cli.project.framework_marks import ASKED
from gradcheck_cli.record.watch import gradient_of
from gradcheck_cli.subject.protocol import CustomGradient, Framework

_FUNCTION = "function"


def adopted(function: Any) -> tuple[CustomGradient, Framework]:
    """The gradient that an object is, with its framework: the one that made it, or that it uses."""
    claims = list(_claims(function))
    if not claims:
        raise TypeError(f"{function!r} is nothing that has a gradient")
    custom = [pair for pair in claims if pair[0].kind != _FUNCTION]
    if custom:
        return custom[0]
    called, imported = _rules_called(function), _modules(function)
    calling = [pair for pair in claims if pair[1].name in called]
    used = [pair for pair in claims if pair[1].name in imported]
    return (calling or used or claims[-1:])[0]


def _claims(function: Any) -> Iterator[tuple[CustomGradient, Framework]]:
    """What each loaded framework takes the object for."""
    for each in ASKED:
        if each in sys.modules:
            framework = load(each)
            gradient = gradient_of(framework, function)
            if gradient is not None:
                yield gradient, framework


def _rules_called(function: Any) -> set[str]:
    """The frameworks of the custom gradients that the function's own text names."""
    plain = inspect.unwrap(function)
    code, there = getattr(plain, "__code__", None), getattr(plain, "__globals__", {})
    named = [there[name] for name in getattr(code, "co_names", ()) if name in there]
    pairs = (pair for value in named if callable(value) for pair in _claims(value))
    return {framework.name for gradient, framework in pairs if gradient.kind != _FUNCTION}


def _modules(function: Any) -> set[str]:
    """Top-level modules that the function's own module imports."""
    names = getattr(inspect.unwrap(function), "__globals__", {}).values()
    return {
        value.__name__.partition(".")[0]
        for value in names
        if inspect.ismodule(value) and value.__name__
    }

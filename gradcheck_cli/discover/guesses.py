"""Guesses of arguments for a function or a constructor that is called only to see what it makes."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.names import fixed_by_name

Function = Callable[..., Any]

_SAYS_CALLABLE = re.compile(r"(^|_)(f|g|fn|fun|func|function|callable|activation|operator)$")
_DEEP = 4  # guesses for each of several parameters that are tried in all combinations


def guesses(function: Function, functions: Sequence[Function] = (np.tanh,)) -> Iterator[list[Any]]:
    """Values for the required positional parameters: what their names say first, then the plainest.

    `functions` are the framework's own, for a parameter that is to be called.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    required = [
        p
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    named = [_named(p, functions) for p in required]
    plain = _plain(functions)
    if any(named):
        yield [(own or plain)[0] for own in named]
    for value in plain if required else [None]:
        yield [value] * len(required)
    if len(required) > 1:
        for chosen in itertools.product(*([*own, *plain[:_DEEP]] for own in named)):
            yield list(chosen)


def _plain(functions: Sequence[Function]) -> list[Any]:
    return [
        np.float32(0.5), 2, np.ones(3, np.float32), *functions[:1], np.eye(3, dtype=np.float32), True,
        "relu",
    ]  # fmt: skip


def _named(parameter: inspect.Parameter, functions: Sequence[Function]) -> list[Any]:
    """Values that the name or the annotation of a parameter asks for, likeliest first."""
    is_function = "Callable" in str(parameter.annotation)
    if is_function or _SAYS_CALLABLE.search(parameter.name.lower().strip("_")):
        return list(functions)
    return [fixed.value for fixed in fixed_by_name(parameter.name, (3,), None)]

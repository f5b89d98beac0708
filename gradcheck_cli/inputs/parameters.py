"""A function's parameters as its author declared them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gradcheck_cli.inputs.signature import OMITTED, Parameter

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def declared(
    function: Callable[..., Any],
    skipped: int,
    differentiable: Callable[[int, inspect.Parameter], bool],
    filled: Collection[str] = (),
) -> list[Parameter]:
    """Parameters of a function but the first `skipped` and the `filled` ones, each with its place among all.

    A function of `*args` alone has one parameter that stands for any number.
    """
    try:
        numbered = list(enumerate(inspect.signature(function).parameters.values()))[skipped:]
    except (TypeError, ValueError):
        return [Parameter("x", 0, differentiable=True, keyword_only=False)]
    parameters = [
        Parameter(
            p.name, index, differentiable(index, p), p.kind is p.KEYWORD_ONLY,
            OMITTED if p.default is p.empty else p.default, annotation(p),
        )
        for index, p in numbered
        if p.kind not in _ANY and p.name not in filled
    ]  # fmt: skip
    if not parameters and any(p.kind is p.VAR_POSITIONAL for _, p in numbered):
        return [Parameter("args", skipped, differentiable=True, keyword_only=False, variadic=True)]
    return parameters


def expanded(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
    """A function of `*args` as one of so many arguments; others as they are."""
    if [p.variadic for p in parameters] != [True]:
        return list(parameters)
    return [Parameter(f"args[{i}]", i, differentiable=True, keyword_only=False) for i in range(count)]  # fmt: skip


def annotation(parameter: inspect.Parameter) -> str | None:
    """The annotation of a parameter as text; None if it has none."""
    hint = parameter.annotation
    if hint is parameter.empty:
        return None
    if isinstance(hint, str):
        return hint
    named = isinstance(hint, type) and not typing.get_args(hint)
    return hint.__name__ if named else str(hint)

"""A function's parameters as its author declared them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
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

    That of `*args` stands for any number; it comes before those that have no place.
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
    starred = next(((i, p) for i, p in numbered if p.kind is p.VAR_POSITIONAL), None)
    if starred is None:
        return parameters
    index, many = starred
    rest = Parameter(many.name, index, differentiable(index, many), keyword_only=False, variadic=True)  # fmt: skip
    placed = [p for p in parameters if not p.keyword_only]
    return [*placed, rest, *parameters[len(placed) :]]


def expanded(parameters: Sequence[Parameter], count: int) -> list[Parameter]:
    """A function of `*args` as one of so many arguments without a keyword; others as they are."""
    placed = sum(not p.keyword_only and not p.variadic for p in parameters)
    each: list[Parameter] = []
    for p in parameters:
        names = [f"{p.name}[{i}]" for i in range(count - placed)] if p.variadic else [p.name]
        each += (
            replace(p, name=name, index=p.index + i, variadic=False) for i, name in enumerate(names)
        )
    return each


def annotation(parameter: inspect.Parameter) -> str | None:
    """The annotation of a parameter as text; None if it has none."""
    hint = parameter.annotation
    if hint is parameter.empty:
        return None
    if isinstance(hint, str):
        return hint
    named = isinstance(hint, type) and not typing.get_args(hint)
    return hint.__name__ if named else str(hint)

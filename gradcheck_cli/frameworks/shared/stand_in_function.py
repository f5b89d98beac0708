"""A function that stands for one that a factory takes: smooth, increasing, and of any number of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

Function = Callable[..., Any]

_SHARE = 0.25  # of the other arguments: the function stays a contraction


def stand_in_function(tanh: Function, mean: Function) -> Function:
    """`tanh` itself of one argument; of several a contraction in the first that has axes, moved by the others.

    So it has an inverse, a fixed point and a step of an equation, whichever a factory looks for.
    """

    @functools.wraps(tanh)
    def made_up(*arguments: Any) -> Any:
        if len(arguments) == 1:
            return tanh(arguments[0])
        state = next((i for i, a in enumerate(arguments) if any(_axes(n) for n in _arrays(a))), 0)
        others = (a for i, a in enumerate(arguments) if i != state)
        shifts = [_SHARE * tanh(mean(number)) for other in others for number in _arrays(other)]
        shift = sum(shifts, 0.0)
        return _mapped(lambda x: 0.5 * tanh(x + shift) + _SHARE * shift, arguments[state])

    return made_up


def _axes(array: Any) -> int:
    return len(array.shape)


def _mapped(function: Function, value: Any) -> Any:
    """The function of each array of a tree."""
    if isinstance(value, dict):
        return {key: _mapped(function, item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(function, item) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(function, item) for item in value)
    return function(value)


def _arrays(value: Any) -> Iterator[Any]:
    """The arrays of a tree."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif hasattr(value, "shape"):
        yield value

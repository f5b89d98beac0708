"""Parts of a tensor that share its memory: torchax copies what `select`, `narrow` and `unbind` give, so a write into it would be lost."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.frameworks.torch.bridge.native_ops import operation

_NUMBERS = {"select": ("dim", "index"), "narrow": ("dim", "start", "length"), "unbind": ("dim",)}


def share_parts(environment: Any, *classes: Any) -> None:
    """Let such parts of tensors of these classes be what an index gives, into which can be written."""
    dispatch = environment.dispatch

    def shared(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name, options = operation(func), kwargs or {}
        if name not in _NUMBERS or type(args[0]) not in classes:
            return dispatch(func, types, args, kwargs)
        numbers = (*args[1:], *(options[key] for key in _NUMBERS[name] if key in options))
        if not all(isinstance(number, int) for number in numbers):
            return dispatch(func, types, args, kwargs)
        return _part(environment, name, args[0], numbers)

    environment.dispatch = shared


def _part(environment: Any, name: str, x: Any, numbers: tuple[int, ...]) -> Any:
    """By the axis that the numbers begin with, and by where on it."""
    axis = (numbers[0] if numbers else 0) % max(1, len(x.shape))
    if name == "select":
        return _viewed(environment, x, axis, numbers[1])
    if name == "narrow":
        start = numbers[1] % max(1, x.shape[axis]) if numbers[1] < 0 else numbers[1]
        return _viewed(environment, x, axis, slice(start, start + numbers[2]))
    return tuple(_viewed(environment, x, axis, place) for place in range(x.shape[axis]))


def _viewed(environment: Any, x: Any, axis: int, place: int | slice) -> Any:
    from torchax.view import NarrowInfo, View

    whole = [slice(None)] * axis
    return View(x, view_info=NarrowInfo((*whole, place)), env=environment)

"""A signature as the comment that asks for it again: its arrays, with names or sizes for the axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.project.input_specs import SpecError, parse

_KEY = re.compile(r"[\w./ -]+")
_PLAIN = (type(None), bool, int, float, str)
_NAMES = ("b", "d", "n", "m", "p", "q", "r", "s", "t", "u")

Part = Leaf | Fixed
Axes = Callable[[Part], str]


class _Unsaid(Exception):
    """An argument that no spec describes."""


def comments_of(signature: Signature) -> Iterator[str]:
    """`x=f32[b d], w=f32[d]`, then with sizes: the second holds also where other sizes do not fit.

    Plain arguments are left out, so that they still move; integers that have to ascend, too.
    """
    parts = [part for _, value in signature.arguments for part in _arrays(value)]
    ways = [_named_by_size(parts), _sized]
    if all(len(part.axes) == len(_shape(part)) for part in parts):
        ways[0] = _named
    for axes in ways:
        text = ", ".join(_specs(signature, axes))
        if text and _is_valid(text):
            yield text


def _named(part: Part) -> str:
    return " ".join(part.axes)


def _sized(part: Part) -> str:
    return " ".join(map(str, _shape(part)))


def _named_by_size(parts: Sequence[Part]) -> Axes:
    """Axes of one size have one name: sizes that nothing made equal were chosen to differ."""
    sizes = dict.fromkeys(size for part in parts for size in _shape(part))
    names = dict(zip(sizes, _NAMES, strict=False)) if len(sizes) > 1 else dict.fromkeys(sizes, "n")
    return lambda part: " ".join(names.get(size, str(size)) for size in _shape(part))


def _specs(signature: Signature, axes: Axes) -> Iterator[str]:
    for name, value in signature.arguments:
        try:
            if any(True for _ in _arrays(value)):
                yield f"{name}={_spec(value, axes)}"
        except _Unsaid:
            continue


def _arrays(value: Any) -> Iterator[Part]:
    """The arrays of an argument, but of objects, and of defaults that are moved a little."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _arrays(item)
    elif type(value) in (tuple, list):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, Leaf):
        yield from [value] if value.centre is None else []
    elif isinstance(value, Fixed) and isinstance(value.value, np.ndarray):
        yield value


def _shape(part: Part) -> tuple[int, ...]:
    return part.shape if isinstance(part, Leaf) else tuple(part.value.shape)


def _spec(value: Any, axes: Axes) -> str:
    """One argument as a spec."""
    if isinstance(value, dict) and all(isinstance(k, str) and _KEY.fullmatch(k) for k in value):
        return f"{{{', '.join(f'{key}: {_spec(item, axes)}' for key, item in value.items())}}}"
    if type(value) is tuple:
        return f"({', '.join(_spec(item, axes) for item in value)})"
    if type(value) is list:
        return f"[{', '.join(_spec(item, axes) for item in value)}]"
    if isinstance(value, Leaf):
        domain = f" {value.domain.text}" if value.domain is not None and value.domain.text else ""
        return f"{'c64' if value.is_complex else 'f32'}[{axes(value)}]{domain}"
    if isinstance(value, Fixed) and isinstance(value.value, np.ndarray):
        return _table(value, axes)
    if isinstance(value, Fixed) and type(value.value) in _PLAIN:
        return repr(value.value)
    raise _Unsaid


def _table(part: Fixed, axes: Axes) -> str:
    """Integers below the largest of these, or flags; others, and what has to ascend, no spec describes."""
    array = part.value
    if array.dtype.kind == "b":
        return f"bool[{axes(part)}]"
    flat = array.ravel()
    ascends = flat.size > 2 and bool((np.diff(flat) >= 0).all()) and flat[0] != flat[-1]
    if array.dtype.kind not in "iu" or flat.size == 0 or ascends:
        raise _Unsaid
    return f"i32[{axes(part)}] in {int(flat.min())}..{int(flat.max()) + 1}"


def _is_valid(text: str) -> bool:
    try:
        return bool(parse(text))
    except SpecError:
        return False

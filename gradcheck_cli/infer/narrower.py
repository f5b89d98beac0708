"""A signature again with less in it: an axis of one, an axis fewer, an item of a dict left out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from gradcheck_cli.inputs.signature import Leaf, Signature, last_name


def narrower(signature: Signature, names: Collection[str]) -> Iterator[Signature]:
    """Of the arrays and items that have one of these names, each narrowed in turn: with those that share the axis, then alone."""
    yield from _without_items(signature, names)
    leaves = [leaf for leaf in signature.whole_leaves if last_name(leaf.path) in names]
    for leaf in leaves:
        for axis in reversed(range(len(leaf.shape))):
            if leaf.shape[axis] > 1:
                yield from _with_all_that_share(signature, leaf, axis)
                one = (*leaf.shape[:axis], 1, *leaf.shape[axis + 1 :])
                yield _reshaped(signature, leaf.path, one)
    for leaf in leaves:
        if leaf.shape:
            yield _reshaped(signature, leaf.path, leaf.shape[1:])


def _with_all_that_share(signature: Signature, leaf: Leaf, axis: int) -> Iterator[Signature]:
    """The signature with an axis of one wherever it has this name: `x (n, t)` beside `times (t,)`."""
    name = leaf.axes[axis] if len(leaf.axes) == len(leaf.shape) else ""
    if not name or sum(name in other.axes for other in signature.whole_leaves) < 2:
        return

    def change(part: Any) -> Any:
        if isinstance(part, Leaf) and name in part.axes and len(part.axes) == len(part.shape):
            sizes = zip(part.shape, part.axes, strict=True)
            return replace(
                part, shape=tuple(1 if a == name else n for n, a in sizes), recorded=None
            )
        return part

    yield signature.changed(change)


def _reshaped(signature: Signature, path: str, shape: tuple[int, ...]) -> Signature:
    def change(part: Any) -> Any:
        if isinstance(part, Leaf) and part.path == path:
            return replace(part, shape=shape, axes=(), recorded=None)
        return part

    return signature.changed(change)


def _without_items(signature: Signature, names: Collection[str]) -> Iterator[Signature]:
    """The signature without an item of a dict, one at a time."""
    for name, value in signature.arguments:
        for without in _lacking(value, names):
            yield signature.with_argument(name, without)


def _lacking(value: Any, names: Collection[str]) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    for key in value:
        if key in names and len(value) > 1:
            yield {k: v for k, v in value.items() if k != key}
        yield from ({**value, key: inner} for inner in _lacking(value[key], names))

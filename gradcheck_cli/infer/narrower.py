"""A signature again with less in it: an axis of one, an axis fewer, an item of a dict left out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from gradcheck_cli.inputs.signature import Leaf, Signature, last_name


def narrower(signature: Signature, names: Collection[str]) -> Iterator[Signature]:
    """Of the arrays and items that have one of these names, each narrowed in turn."""
    yield from _without_items(signature, names)
    leaves = [leaf for leaf in signature.whole_leaves if last_name(leaf.path) in names]
    for leaf in leaves:
        for axis in reversed(range(len(leaf.shape))):
            if leaf.shape[axis] > 1:
                one = (*leaf.shape[:axis], 1, *leaf.shape[axis + 1 :])
                yield _reshaped(signature, leaf.path, one)
    for leaf in leaves:
        if leaf.shape:
            yield _reshaped(signature, leaf.path, leaf.shape[1:])


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

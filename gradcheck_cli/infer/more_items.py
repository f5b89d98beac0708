"""Longer lists of arrays, for a text that goes over them: what one round hides, the third shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.inputs.signature import Leaf, Signature

_ROUNDS = 3
_MOST_ITEMS = 4
_LONGER = ", longer for a text that goes over it"


def with_more_items(signature: Signature) -> Iterator[Signature]:
    """The signature with each list of arrays three times as long: as it is, or each second one the other way round."""
    for name, value in signature.arguments:
        if type(value) not in (list, tuple) or not 0 < len(value) <= _MOST_ITEMS:
            continue
        items = [item for item in value if isinstance(item, Leaf) and item.shape]
        if len(items) != len(value):
            continue
        for longer in (_in_turn(items), _alternating(items)):
            if longer:
                yield signature.with_argument(name, type(value)(_numbered(name, longer)))


def _in_turn(items: Sequence[Leaf]) -> list[Leaf]:
    return list(items) * _ROUNDS


def _alternating(items: Sequence[Leaf]) -> list[Leaf]:
    """A matrix there, one back, and one there again; nothing where there are several, or it is its own mirror."""
    there = items[0]
    if len(items) > 1 or there.shape == there.shape[::-1]:
        return []
    return [there, replace(there, shape=there.shape[::-1]), there]


def _numbered(name: str, items: Sequence[Leaf]) -> Iterator[Leaf]:
    for number, item in enumerate(items):
        source = item.source if item.source.endswith(_LONGER) else f"{item.source}{_LONGER}"
        yield replace(item, path=f"{name}[{number}]", source=source)

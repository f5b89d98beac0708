"""Several objects of one definition: what a factory made twice is judged twice, by its own name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from gradcheck_cli.discover.factories import attributes
from gradcheck_cli.subject.results import Missing

_MOST = 16  # of one definition
G = TypeVar("G", bound=Any)


def distinct(
    adopted: Sequence[tuple[object, G]],
    module: ModuleType,
    bare: Callable[[object], object] = lambda thing: thing,
) -> tuple[list[G], list[Missing]]:
    """The gradient of each definition, or of each name that the module has for its objects."""
    names: dict[int, str] = {}
    for name, value in attributes(module):
        names.setdefault(id(bare(value)), name)
    groups: dict[tuple[str, int], list[tuple[object, G]]] = {}
    for thing, gradient in adopted:
        groups.setdefault((gradient.place.qualname, gradient.place.line), []).append(
            (thing, gradient)
        )
    chosen: list[G] = []
    missing: list[Missing] = []
    for group in groups.values():
        own = {names[id(thing)]: gradient for thing, gradient in group if id(thing) in names}
        if len(own) < 2:
            chosen.append(group[0][1])
            continue
        by_name = list(own.items())
        chosen += [_by_name(gradient, name) for name, gradient in by_name[:_MOST]]
        if len(by_name) > _MOST:
            reason = (
                f"{len(by_name) - _MOST} more are made by the same definition: name those to check"
            )
            missing.append(Missing(by_name[_MOST][1].place, reason))
    return sorted(chosen, key=lambda g: (g.place.line, g.place.qualname)), missing


def _by_name(gradient: G, name: str) -> G:
    place = gradient.place
    own = dataclasses.replace(place, qualname=name, definition=place.qualname)
    named: G = dataclasses.replace(gradient, name=name, place=own)
    return named

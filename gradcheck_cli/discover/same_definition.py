"""Several objects of one definition, and objects without a name of their own: by what the module calls them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from gradcheck_cli.discover.factories import attributes
from gradcheck_cli.subject.results import Missing, Place

_MOST = 16  # of one definition
G = TypeVar("G", bound=Any)


def distinct(
    adopted: Sequence[tuple[object, G]],
    module: ModuleType,
    bare: Callable[[object], object] = lambda thing: thing,
) -> tuple[list[G], list[Missing]]:
    """The gradient of each definition, or of each name that the module has for its objects."""
    names: dict[int, list[str]] = {}
    for name, value in attributes(module):
        names.setdefault(id(bare(value)), []).append(name)
    groups: dict[tuple[str, int], list[tuple[object, G]]] = {}
    for thing, gradient in adopted:
        groups.setdefault((gradient.place.qualname, gradient.place.line), []).append(
            (thing, gradient)
        )
    text = _Text(getattr(module, "__file__", None) or "")
    chosen: list[G] = []
    missing: list[Missing] = []
    for group in groups.values():
        own = {_name(names[id(t)], g.place): g for t, g in group if id(t) in names}
        if not own:
            chosen.append(group[0][1])
            continue
        by_name = list(own.items())
        ((name, gradient), *others) = by_name
        if not others and name == gradient.place.qualname and text.has_own_name(gradient.place):
            chosen.append(gradient)
            continue
        names_of_all = tuple(own)
        chosen += [_by_name(g, name, text, names_of_all) for name, g in by_name[:_MOST]]
        if len(by_name) > _MOST:
            reason = (
                f"{len(by_name) - _MOST} more are made by the same definition: name those to check"
            )
            missing.append(Missing(by_name[_MOST][1].place, reason))
    return sorted(chosen, key=lambda g: (g.place.line, g.place.qualname)), missing


def _name(names: Sequence[str], place: Place) -> str:
    """That of its definition, if the module has the gradient under it; else the first: `f = custom_vjp(_f)` is `f`."""
    return place.qualname if place.qualname in names else names[0]


def _by_name(gradient: G, name: str, text: _Text, names: Sequence[str]) -> G:
    siblings = tuple(other for other in names if other != name)
    place = dataclasses.replace(text.named(gradient.place, name), siblings=siblings)
    named: G = dataclasses.replace(gradient, name=name, place=place)
    return named


class _Text:
    """The text of the module: which lines bind its names, and which lie in functions."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            tree = ast.Module(body=[], type_ignores=[])
        self._bound: Mapping[str, int] = {
            target.id: node.lineno
            for node in ast.walk(tree)
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name) and not node.col_offset
        }
        self._inside = [
            range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]

    def has_own_name(self, place: Place) -> bool:
        """Is it known by the name of its definition, and not by that of what a factory made of it?"""
        if not self.path:
            return True
        made_inside = any(place.made in lines for lines in self._inside)
        return not (made_inside or "<" in place.qualname or self._is_elsewhere(place))

    def named(self, place: Place, name: str) -> Place:
        """The place under a name of the module: at its `def`, or at the line that binds the name."""
        own = dataclasses.replace(place, qualname=name, definition=place.qualname)
        line = self._bound.get(name.partition("[")[0].partition(".")[0])
        outer, _, last = place.qualname.rpartition(".")
        is_nested_def = outer.endswith("<locals>") and last != "<lambda>"
        if self.has_own_name(place) or (is_nested_def and not self._is_elsewhere(place)):
            return own
        return dataclasses.replace(own, path=self.path, line=line or place.made or place.line)

    def _is_elsewhere(self, place: Place) -> bool:
        """Is it defined in another file, such as a library's?"""
        return Path(place.path).resolve() != Path(self.path).resolve()

"""All torch custom gradients of one module: Functions, custom ops, nested ones."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gradcheck_cli.discover.factories import attributes, enter_all
from gradcheck_cli.discover.methods import attribute
from gradcheck_cli.discover.same_definition import distinct
from gradcheck_cli.frameworks.torch.adopt import of_class, of_custom_op
from gradcheck_cli.frameworks.torch.classes import class_place, functions, made_anew, place_of
from gradcheck_cli.frameworks.torch.fit import fit
from gradcheck_cli.frameworks.torch.gradient import TorchGradient, of_function
from gradcheck_cli.frameworks.torch.library import STAND_IN
from gradcheck_cli.frameworks.torch.private_api import CustomOpDef, parts_of
from gradcheck_cli.frameworks.torch.registered import import_registrations
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Found, Missing, Place


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[list[TorchGradient], list[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    gc.disable()  # a class that a factory made and dropped lives until it is collected
    try:
        entries = enter_all(module, path, scopes, [STAND_IN], recorded, _made(module, path))
        missing = entries.missing
        classes = list(functions())
    finally:
        gc.enable()
    adopted: list[tuple[object, TorchGradient]] = []
    for cls in classes:
        place = class_place(cls)
        if place is None or not _same(path, place.path):
            continue
        if cls.backward is torch.autograd.Function.backward and not _backs(cls):
            missing.append(Missing(place, "it has no backward"))
            continue
        entry = entries.behind(place.qualname)
        made = of_class(cls, replace(place, invented=entry.invented))
        adopted.append((cls, made_anew(made, entry.maker)))
    ops = list(_ops(module, path))
    import_registrations(path, [op for op, _ in ops])
    for op, place in ops:
        gradient = of_custom_op(op, place)
        if gradient is None:
            add = f"`{place.qualname}.register_autograd(…)`, if it is to have one"
            missing.append(Missing(place, "no derivative was ever registered for it", add=add))
        else:
            adopted.append((op, gradient))
    missing += _hooked(path)
    gradients, more = distinct(adopted, module, bare)
    return gradients, [*missing, *more]


def _ops(module: ModuleType, path: str) -> Iterator[tuple[CustomOpDef, Place]]:
    """The custom ops that the file defines."""
    for _, value in attributes(module):
        if isinstance(value, CustomOpDef):
            body = parts_of(value).body
            place = place_of(body, body.__qualname__)
            if place is not None and _same(path, place.path):
                yield value, place


def _made(module: ModuleType, path: str) -> set[int]:
    """Lines of what the import made: of classes of Function, and of custom ops."""
    places = [p for p in map(class_place, functions()) if p is not None and _same(path, p.path)]
    return {place.line for place in (*places, *(place for _, place in _ops(module, path)))}


_HOOKS = frozenset({"register_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook"})  # fmt: skip


def _hooked(path: str) -> list[Missing]:
    """Gradients that are edited where they pass, by no rule: nothing says what they are to be."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    return [
        Missing(
            Place(path, node.lineno, f"{node.func.attr}:{node.lineno}"),
            "a gradient edited by a hook belongs to no custom gradient: it is not checked",
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _HOOKS
    ]


def named(module: ModuleType, name: str, path: str, own: Own) -> TorchGradient | None:
    """One function by name: a Function's `apply`, or a plain function itself."""
    thing = attribute(module, name)
    if thing is None:
        return None
    owner = getattr(thing, "__self__", None)
    cls = thing if inspect.isclass(thing) else owner if inspect.isclass(owner) else None
    if cls is not None and issubclass(cls, torch.autograd.Function):
        place = class_place(cls)
        return None if place is None else of_class(cls, place)
    if isinstance(thing, CustomOpDef):
        place = place_of(parts_of(thing).body, name)
        return None if place is None else of_custom_op(thing, place)
    if inspect.isclass(thing) or not callable(thing):
        return None
    place = place_of(thing, name) or Place(path, 1, name)
    return of_function(thing, name.rpartition(".")[2], place, fit)


def bare(value: Any) -> object:
    """The class of Function that a function closes over, as what a factory returns does; or the value itself."""
    cells = (value.__closure__ or ()) if inspect.isfunction(value) else ()
    held = [cell.cell_contents for cell in cells if _holds_a_function(cell)]
    return held[0] if len(held) == 1 else value


def _holds_a_function(cell: Any) -> bool:
    try:
        content = cell.cell_contents
    except ValueError:  # it is empty
        return False
    return inspect.isclass(content) and issubclass(content, torch.autograd.Function)


def _backs(cls: Any) -> bool:
    return cls.vjp is not torch.autograd.Function.vjp


def _same(path: str, other: str) -> bool:
    return other == path or Path(other).resolve() == Path(path)

"""All TensorFlow custom gradients of one module: decorated functions, methods, registered ones."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gradcheck_cli.discover.factories import attributes, enter_all
from gradcheck_cli.discover.methods import attribute
from gradcheck_cli.discover.outer import outer_functions, with_wholes
from gradcheck_cli.discover.same_definition import distinct
from gradcheck_cli.frameworks.tensorflow.adopt import adopt, made_anew, registered
from gradcheck_cli.frameworks.tensorflow.fit import fit
from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, TfGradient, of_function
from gradcheck_cli.frameworks.tensorflow.hooks import BIND, source
from gradcheck_cli.frameworks.tensorflow.outer import STAND_IN, whole
from gradcheck_cli.frameworks.tensorflow.private_api import decorated
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Found, Missing, Place


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[list[TfGradient], list[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    listed = {id(each.thing) for each in recorded}
    for _, value in attributes(module):  # made before the hooks stood (installed modules)
        if isinstance(value, BIND) and id(value) not in listed:
            recorded.append(Found(value, CUSTOM, *source(decorated(value))))
    signatures = _signatures(module)
    made = {each.line for each in recorded if _same(path, each.path)}
    outer = outer_functions(module, scopes, [STAND_IN])
    factories = [scope for scope in scopes if scope not in outer]
    missing = enter_all(module, path, factories, [STAND_IN], recorded, made).missing
    adopted: list[tuple[object, TfGradient]] = []
    for each in recorded:
        if not _same(path, each.path):
            continue
        gradient = (
            adopt(module, each.thing, own)
            if each.kind == CUSTOM
            else registered(each, _overridden(path), own)
        )
        if isinstance(gradient, TfGradient) and each.extra.get("invented"):
            place = replace(gradient.place, invented=str(each.extra["invented"]))
            gradient = replace(gradient, place=place)
        if isinstance(gradient, TfGradient) and id(each.thing) in signatures:
            gradient = replace(gradient, specs=signatures[id(each.thing)])
        if isinstance(gradient, TfGradient) and each.kind == CUSTOM:
            gradient = made_anew(module, each, gradient, own)
        if isinstance(gradient, Missing):
            missing.append(gradient)
        else:
            adopted.append((each.thing, gradient))
    gradients, more = distinct(adopted, module, _bare)
    every = [each for of_scope in outer.values() for each in of_scope]
    wholes = [whole(each, own) for each in every]
    return with_wholes(gradients, wholes, every), [*missing, *more]


def named(module: ModuleType, name: str, path: str, own: Own) -> TfGradient | None:
    """One function by name: its custom gradient, or the plain function itself."""
    thing = attribute(module, name)
    if thing is None or not callable(thing) or inspect.isclass(thing):
        return None
    if isinstance(thing, BIND):
        return adopt(module, thing, own)
    where, line = source(thing)
    place = Place(where or path, line, name)
    return of_function(thing, name.rpartition(".")[2], place, own, fit)


def _signatures(module: ModuleType) -> dict[int, tuple[Any, ...]]:
    """The input signatures of `tf.function`s, by the identity of the custom gradient inside."""
    signatures: dict[int, tuple[Any, ...]] = {}
    for _, value in attributes(module):
        specs = getattr(value, "input_signature", None)
        if specs and hasattr(value, "python_function"):
            signatures[id(value.python_function)] = tuple(specs)
    return signatures


def _bare(value: Any) -> object:
    """The function inside a `tf.function`, or the value itself."""
    return getattr(value, "python_function", value)


def _overridden(path: str) -> dict[str, str]:
    """Registered name → op type, from the literal maps in the source."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    types: dict[str, str] = {}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "gradient_override_map":
            for part in ast.walk(node):
                for key, value in zip(part.keys, part.values, strict=True) if isinstance(part, ast.Dict) else ():  # fmt: skip
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                        types[str(value.value)] = str(key.value)
    return types


def _same(path: str, other: str) -> bool:
    return bool(other) and (other == path or Path(other).resolve() == Path(path).resolve())

"""All TensorFlow custom gradients of one module: decorated functions, methods, registered ones."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from gradcheck_cli.discover.methods import attribute
from gradcheck_cli.discover.reach import attributes, enter, instance_of
from gradcheck_cli.discover.twins import told_apart
from gradcheck_cli.frameworks.seam import Found, Missing, Own, Place
from gradcheck_cli.frameworks.tensorflow.gradient import FUNCTION, TfGradient
from gradcheck_cli.frameworks.tensorflow.hooks import BIND, CUSTOM, REGISTERED, source


def find(
    module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
) -> tuple[list[TfGradient], list[Missing]]:
    """The module's own custom gradients, in the order of their lines."""
    known = {id(found.thing) for found in recorded}
    for _, value in attributes(module):  # made before the hooks stood (installed modules)
        if isinstance(value, BIND) and id(value) not in known:
            recorded.append(Found(value, CUSTOM, *source(value._f)))
    signatures = _signatures(module)
    missing = [m for scope in scopes if (m := enter(module, path, scope, [tf.tanh])) is not None]
    adopted: list[tuple[object, TfGradient]] = []
    for found in recorded:
        if not _same(path, found.path):
            continue
        gradient = (
            adopt(module, found.thing, own)
            if found.kind == CUSTOM
            else _registered(found, _overridden(path), own)
        )
        if isinstance(gradient, TfGradient) and id(found.thing) in signatures:
            gradient = replace(gradient, specs=signatures[id(found.thing)])
        if isinstance(gradient, Missing):
            missing.append(gradient)
        else:
            adopted.append((found.thing, gradient))
    gradients, more = told_apart(adopted, module, _bare)
    return gradients, [*missing, *more]


def named(module: ModuleType, name: str, path: str, own: Own) -> TfGradient | None:
    """One function by name: its custom gradient, or the plain function itself."""
    thing = attribute(module, name)
    if thing is None or not callable(thing) or inspect.isclass(thing):
        return None
    if isinstance(thing, BIND):
        return adopt(module, thing, own)
    where, line = source(thing)
    place = Place(where or path, line, name)
    return of_function(thing, name.rpartition(".")[2], place, own)


def _signatures(module: ModuleType) -> dict[int, tuple[Any, ...]]:
    """The input signatures of `tf.function`s around custom gradients, by what they are around."""
    found: dict[int, tuple[Any, ...]] = {}
    for _, value in attributes(module):
        specs = getattr(value, "input_signature", None)
        if specs and hasattr(value, "python_function"):
            found[id(value.python_function)] = tuple(specs)
    return found


def _bare(value: Any) -> object:
    """What a `tf.function` is around."""
    return getattr(value, "python_function", value)


def adopt(module: ModuleType, bind: Any, own: Own) -> TfGradient:
    """A decorated function; a method gets an instance of its class."""
    function = bind._f
    path, line = source(function)
    qualname = getattr(function, "__qualname__", "<custom_gradient>")
    rule, body, bound = bind, function, 0
    instance = _instance(module, function, qualname)
    if instance is not None:
        rule, body, bound = bind.__get__(instance, type(instance)), function.__get__(instance), 1
    return TfGradient(
        name=qualname.rpartition(".")[2], kind=CUSTOM, place=Place(path, line, qualname),
        primal=function, rule=rule, split=body, own=own, bound=bound,
    )  # fmt: skip


def of_function(function: Callable[..., Any], name: str, place: Place, own: Own) -> TfGradient:
    """A plain function: its value and its automatic gradient are judged."""
    return TfGradient(
        name=name, kind=FUNCTION, place=place, primal=function, rule=function,
        split=lambda *args, **kwargs: (function(*args, **kwargs), None), own=own,
    )  # fmt: skip


def _instance(module: ModuleType, function: Any, qualname: str) -> object | None:
    owner, _, _ = qualname.rpartition(".")
    names = list(inspect.signature(function).parameters) if callable(function) else []
    if not owner or "<locals>" in qualname or names[:1] != ["self"]:
        return None
    cls: Any = module
    for part in owner.split("."):
        cls = getattr(cls, part, None)
    return instance_of(cls) if inspect.isclass(cls) else None


# -- registered gradients -----------------------------------------------------------


def _registered(found: Found, overridden: dict[str, str], own: Own) -> TfGradient | Missing:
    """`tf.RegisterGradient(name)`: of the op that the source maps to this name, or of its own."""
    function: Any = found.thing
    name = str(found.extra["op"])
    op = overridden.get(name, name)
    place = Place(found.path, found.line, function.__qualname__)
    definition = op_def_registry.get(op)
    raw = getattr(tf.raw_ops, op, None)
    if definition is None or raw is None:
        return Missing(
            place,
            f"no op has the type `{name}`, and no `gradient_override_map` of this file maps one to it",
        )
    names = tuple(arg.name for arg in definition.input_arg)

    def call(*inputs: Any) -> Any:
        return raw(**dict(zip(names, inputs, strict=True)))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def rule(*inputs: Any) -> Any:
        with tf.compat.v1.get_default_graph().gradient_override_map({op: name}):
            return call(*inputs)

    def split(*inputs: Any) -> tuple[Any, Any]:
        """In a graph; the grad function sees the op itself."""
        out = call(*inputs)
        first = tf.nest.flatten(out)[0]
        return out, lambda *cotangents: function(first.op, *cotangents)

    return TfGradient(
        name=function.__name__, kind=REGISTERED, place=place, primal=function, rule=rule,
        split=split, own=own, parameter_names=names,
    )  # fmt: skip


def _overridden(path: str) -> dict[str, str]:
    """Registered name → op type, from the literal maps in the source."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "gradient_override_map":
            for part in ast.walk(node):
                for key, value in zip(part.keys, part.values, strict=True) if isinstance(part, ast.Dict) else ():  # fmt: skip
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                        found[str(value.value)] = str(key.value)
    return found


def _same(path: str, other: str) -> bool:
    return bool(other) and (other == path or Path(other).resolve() == Path(path).resolve())

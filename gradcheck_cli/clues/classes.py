"""Arguments that are objects: NamedTuples, dataclasses, equinox modules, made from their fields.

An annotation names a class; a real call, or the module itself, holds an object. Objects of a plain class of the
project are made by its constructor: nothing in them is learned.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.subscripts import attributes_read, unpacked
from gradcheck_cli.clues.trees import fields
from gradcheck_cli.inputs.signature import Built
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_SET = re.compile(r"\bself\.(\w+)\s*(?::[^=\n]+)?=(?!=)")
# What every array has, and says nothing of a class that sets it, too.
_OF_ARRAYS = frozenset(
    {"shape", "ndim", "dtype", "size", "device", "T", "mT", "at", "real", "imag"}
)
_PLAIN = ("int", "float", "bool", "str")


def classes_of_arguments(
    function: Callable[..., Any],
    rule: Sequence[Callable[..., Any]],
    names: Sequence[str],
    paths: Mapping[str, object],
) -> dict[str, type]:
    """The class of each argument that is an object: annotated, named in a docstring, or known by the fields that are read."""
    annotated = _documented(function, names) | classes(function)
    attributes = attributes_read([function, *rule])
    read_of = {name: fields(name, paths) | attributes.get(name, frozenset()) for name in names}
    by_fields = {name: with_fields(function, read_of[name]) for name in names}
    parts = unpacked([function, *rule])
    by_parts = {name: _of_parts(function, name, parts[name]) for name in names if name in parts}
    found = {name: annotated.get(name) or by_fields[name] or by_parts.get(name) for name in names}
    return {name: cls for name, cls in found.items() if cls is not None}


def classes(function: Callable[..., Any]) -> dict[str, type]:
    """For each parameter that is annotated with a class of fields, or with one of the project, the class."""
    try:
        with calling_user_code():
            hints = typing.get_type_hints(inspect.unwrap(function))
    except UserCodeError:  # a name that exists for type checkers only
        hints = {}
    return {name: hint for name, hint in hints.items() if _is_object(hint, function)}


def _documented(function: Callable[..., Any], names: Sequence[str]) -> dict[str, type]:
    """For each parameter of which a docstring says a class of fields that the module knows: `pairs : Pairs`."""
    known = getattr(inspect.unwrap(function), "__globals__", {})
    found: dict[str, type] = {}
    for text, name in itertools.product((t for t in texts_about(function) if t.near), names):
        spelled = re.escape(name)
        said = re.search(
            rf"^\s*(?::param )?{spelled}\s*(?::|\()\s*`*(\w+)`*", text.text, re.MULTILINE
        ) or re.search(
            rf"(?<!\w)`*{spelled}`*(?:\s*(?:,|and)\s*`*\w+`*)*\s+(?:is|are)\s+(?:both\s+|each\s+)?(?:an?\s+)?`*([A-Z]\w*)`*",
            text.text,
        )
        cls: Any = known.get(said[1]) if said is not None else None
        if _is_object(cls, function):
            found.setdefault(name, cls)
    return found


def with_fields(function: Callable[..., Any], names: frozenset[str]) -> type | None:
    """The only class that the module knows whose objects have these fields and methods; of what arrays have, all must be its fields."""
    values = getattr(inspect.unwrap(function), "__globals__", {}).values()
    if names <= _OF_ARRAYS:
        values = [v for v in values if _has_fields(v) and names == set(field_names(v))]
    objects = [v for v in values if _is_object(v, function)]
    fitting = [v for v in objects if names <= {*field_names(v), *_set_by(v), *_methods(v)}]
    return fitting[0] if names and len(set(fitting)) == 1 else None


def _of_parts(function: Callable[..., Any], name: str, parts: Sequence[str]) -> type | None:
    """The named tuple of the module that is unpacked so: by the names of its fields, or by its own."""
    values = getattr(inspect.unwrap(function), "__globals__", {}).values()
    tuples = {v for v in values if _has_fields(v) and issubclass(v, tuple) and len(v._fields) == len(parts)}  # fmt: skip
    fitting = [v for v in tuples if list(v._fields) == list(parts) or _snake(v.__name__) == name]
    return fitting[0] if len(fitting) == 1 else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower()


def _methods(cls: type) -> list[str]:
    """What the class itself defines to be called, or computes when it is read."""
    kinds = (property, functools.cached_property)
    defined = vars(cls).items()
    return [n for n, value in defined if inspect.isfunction(value) or isinstance(value, kinds)]


def instances(function: Callable[..., Any], wanted: dict[str, type]) -> dict[str, Any]:
    """For each parameter an object of its class that the module holds."""
    values = list(getattr(inspect.unwrap(function), "__globals__", {}).values())
    objects = {}
    for name, cls in wanted.items():
        of_class = [v for v in values if type(v) is cls]
        if of_class:
            objects[name] = of_class[0]
    return objects


def has_fields(value: Any) -> bool:
    """Is the value an object of fields (and no class)?"""
    return not isinstance(value, type) and _has_fields(type(value))


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """The fields of an object by name, but those that it lacks."""
    if isinstance(value, tuple):
        return list(zip(type(value)._fields, value, strict=True))  # type: ignore[attr-defined]
    names = (f.name for f in dataclasses.fields(value))
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def like(value: Any, parts: Sequence[tuple[str, Any]]) -> Built:
    """An object like this one, with other parts."""
    names = tuple(name for name, _ in parts)
    kept = tuple(part for _, part in parts)
    if isinstance(value, tuple):
        cls: Any = type(value)
        return Built(cls.__name__, lambda values: cls(*values), kept, names)
    make = functools.partial(_again, value, names)
    return Built(type(value).__name__, make, kept, names)


def from_fields(cls: Any, option: Callable[[str, str], Any]) -> Built | None:
    """An object of the class, if it has fields; `option` makes a field of its name and its annotation as text."""
    names, texts = tuple(field_names(cls)), field_texts(cls)
    parts = tuple(option(name, texts.get(name, "")) for name in names)
    if not parts:
        return None
    if issubclass(cls, tuple):
        return Built(cls.__name__, lambda values: cls(*values), parts, names)
    make = functools.partial(_new, cls, names)
    return Built(cls.__name__, make, parts, names)


def field_names(cls: Any) -> list[str]:
    """The fields of a class by name; none of a plain class."""
    if not _has_fields(cls):
        return []
    return (
        list(cls._fields) if issubclass(cls, tuple) else [f.name for f in dataclasses.fields(cls)]
    )


def is_configuration(cls: type, *, held: bool = False) -> bool:
    """Are all its fields plain values with defaults, as `bits: int = 4`, or does a constructor alone make it?

    A named tuple is one where it is `held`: nowhere else do its numbers stay as they are.
    """
    if not _has_fields(cls):
        return True
    names = field_names(cls)
    plain = all(text in _PLAIN for text in field_texts(cls).values())
    has_defaults = bool(names) and _defaults(cls).keys() == {*names}
    return plain and has_defaults and (held or dataclasses.is_dataclass(cls))


def setting_of(cls: Any, name: str) -> str | bool | None:
    """The default of a field that is a word or a flag; None for others."""
    default = _defaults(cls).get(name)
    return default if isinstance(default, (str, bool)) else None


def _defaults(cls: Any) -> dict[str, Any]:
    """The fields that have a default."""
    if dataclasses.is_dataclass(cls):
        fields_ = dataclasses.fields(cls)
        return {f.name: f.default for f in fields_ if f.default is not dataclasses.MISSING}
    return dict(getattr(cls, "_field_defaults", {}))


def field_texts(cls: Any) -> dict[str, str]:
    """The annotations of the fields of a class, as text."""
    return {name: _text(kind) for name, kind in inspect.get_annotations(cls).items()}


def _text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    if getattr(annotation, "__args__", ()):  # `Sequence[int]`: its name alone is `Sequence`
        return str(annotation)
    forward = getattr(annotation, "__forward_arg__", None)
    return str(forward or getattr(annotation, "__name__", annotation))


def _has_fields(cls: Any) -> bool:
    if not isinstance(cls, type):
        return False
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def _is_object(cls: Any, function: Callable[..., Any]) -> bool:
    """Has it fields, or is it a plain class of the function's own project?"""
    if _has_fields(cls):
        return True
    home = getattr(inspect.unwrap(function), "__module__", None) or ""
    own = isinstance(cls, type) and _top(cls.__module__) == _top(home)
    return own and inspect.isfunction(vars(cls).get("__init__"))


def _top(module: str) -> str:
    return module.partition(".")[0]


def _set_by(cls: type) -> list[str]:
    """What the constructor of a plain class sets: `self.spacing = spacing`."""
    made = vars(cls).get("__init__")
    if _has_fields(cls) or not inspect.isfunction(made):
        return []
    try:
        return _SET.findall(inspect.getsource(made))
    except (OSError, TypeError):
        return []


def _again(value: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    return _with(copy.copy(value), names, values)


def _new(cls: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    return _with(object.__new__(cls), names, values)


def _with(value: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    """The object with its fields set as `__init__` would, frozen or not."""
    for name, part in zip(names, values, strict=True):
        object.__setattr__(value, name, part)
    return value

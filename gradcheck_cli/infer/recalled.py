"""A recorded call as a signature of a later run, with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.clues.classes import field_names, from_fields
from gradcheck_cli.contract.recorded import (
    FloatArg,
    IntArg,
    OpaqueArg,
    PlainArg,
    RecordedArg,
    RecordedCall,
    TreeArg,
)
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.names import is_guard
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Parameter, Signature
from gradcheck_cli.project.input_specs import Bounds

Array = np.ndarray[Any, Any]

SOURCE = "a recorded call"


def recalled(call: RecordedCall, parameters: Sequence[Parameter], hints: Hints) -> Signature | None:
    """The call as a signature; None if the function has other parameters by now, or takes what cannot be kept."""
    names = {p.name for p in parameters}
    if set(call.arguments) - names:
        return None
    arguments = []
    for parameter in parameters:
        if parameter.name not in call.arguments:
            if parameter.default is OMITTED:
                return None
            arguments.append((parameter.name, OMITTED))
            continue
        recorded = call.arguments[parameter.name]
        number = _learned(parameter, recorded, hints)
        if number is not None:
            domain = hints.domains.get(parameter.name)
            at = np.array(number)
            value: Any = Leaf(parameter.name, (), SOURCE, domain=domain, recorded=at)
        else:
            value = _argument(parameter.name, recorded, hints)
        if value is None:
            return None
        arguments.append((parameter.name, value))
    keywords = frozenset(p.name for p in parameters if p.keyword_only)
    return Signature(tuple(arguments), keywords)


def _learned(parameter: Parameter, argument: RecordedArg, hints: Hints) -> float | None:
    """A plain number that the rule differentiates: as a constant it would hide what the rule makes of it."""
    value = argument.value if isinstance(argument, PlainArg) else None
    declined = any(clue.declined for clue in hints.clues.get(parameter.name, ()))
    learned = parameter.differentiable and not hints.objects_are_held and not declined
    return value if type(value) is float and learned and not is_guard(parameter.name) else None


def _argument(path: str, argument: RecordedArg, hints: Hints) -> Any:
    """The argument as a signature has it; None if it was not recorded and nothing stands for it."""
    if isinstance(argument, TreeArg):
        return _tree(path, argument, hints)
    if isinstance(argument, FloatArg):
        shape = tuple(argument.shape)
        family = None if _may_be_a_weight(path, argument, hints) else argument.structure
        stated = hints.domains.get(path)
        domain = stated if family is None else Domain(Bounds(family=family, text=f"in {family}"))
        numbers = None if argument.values is None else np.reshape(argument.values, shape)
        return Leaf(path, shape, SOURCE, domain=domain, recorded=numbers)
    if isinstance(argument, IntArg):
        return Fixed(_integer_array(argument), f"{argument.dtype}{argument.shape}", SOURCE)
    if isinstance(argument, PlainArg):
        return Fixed(argument.value, repr(argument.value)[:40], SOURCE)
    if argument.type in ("function", "method", "builtin_function_or_method") and hints.functions:
        name, function = hints.functions[0]
        return Fixed(function, name, "a recorded call gave a function", invented=True)
    return None


def _may_be_a_weight(path: str, argument: FloatArg, hints: Hints) -> bool:
    """Are it ones alone, as a weight begins, for which the rule has a gradient? Others are a mask that lets all pass."""
    declined = any(clue.declined for clue in hints.clues.get(path, ()))
    return argument.structure == "binary" and argument.low == argument.high and not declined


def _tree(path: str, argument: TreeArg, hints: Hints) -> Any:
    """What holds arguments; None if one of these was not recorded, or an object is of no class that is known here."""
    names = argument.names or [str(i) for i in range(len(argument.items))]
    places = [_place(path, name, argument) for name in names]
    items = [_argument(p, item, hints) for p, item in zip(places, argument.items, strict=True)]
    if any(v is None for v in items):
        return None
    named = dict(zip(names, items, strict=True))
    if argument.kind == "object":
        # By the argument's annotation or text, if its fields are still those.
        cls = hints.classes.get(path)
        known = cls is not None and set(field_names(cls)) == set(names)
        return from_fields(cls, lambda name, _: named[name]) if known else None
    if argument.kind == "dict":
        return named
    return tuple(items) if argument.kind == "tuple" else items


def _place(path: str, name: str, argument: TreeArg) -> str:
    """A part's path, as Python writes it."""
    if argument.kind == "object":
        return f"{path}.{name}"
    return f"{path}[{name!r}]" if argument.names else f"{path}[{name}]"


def unkept(call: RecordedCall) -> str:
    """The type of the first thing in a call of which nothing was written down."""
    left = list(call.arguments.values())
    while left:
        argument = left.pop(0)
        if isinstance(argument, OpaqueArg):
            return argument.type
        left += argument.items if isinstance(argument, TreeArg) else []
    return ""


def _integer_array(argument: IntArg) -> Array:
    """The numbers of an integer array, or others in the same range, some repeated and not in order."""
    size = int(np.prod(argument.shape, dtype=int))
    if argument.values is not None:
        values = np.asarray(argument.values)
    else:
        low = argument.low or 0
        count = (argument.high if argument.high is not None else low + 2) - low + 1
        values = low + np.arange(size) * 7 % count
    return values.astype(argument.dtype).reshape(argument.shape)

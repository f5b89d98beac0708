"""Arguments for one parameter: what its text states first, then what its name suggests, then guesses."""

from __future__ import annotations

import itertools
from typing import Any

from gradcheck_cli.infer.annotations import annotated
from gradcheck_cli.infer.calls import argument
from gradcheck_cli.infer.classes import from_fields
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.names import fixed_by_name, says_not_a_float
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Parameter
from gradcheck_cli.inputs.stand_ins import static_stand_ins, whole_numbers
from gradcheck_cli.project.input_specs import parse

_MIXED: tuple[tuple[int, ...], ...] = ((3,), (), (4,), (3, 4), (4, 5), (3, 3), (2, 3, 4))
# A weight and its bias, for instance.
_KEY_SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (4,), ())


def options(parameter: Parameter, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """Arguments for the parameter where arrays have this shape, likeliest first."""
    if parameter.name in hints.specs:
        return [specified(parameter.name, hints.specs[parameter.name], hints.spec_source)]
    if parameter.name in hints.integers:
        return whole_numbers(shape)
    named = fixed_by_name(parameter.name, shape, hints.make_key)
    default = parameter.default
    if default is not OMITTED:
        if isinstance(default, float) and parameter.differentiable:
            return [Leaf(parameter.name, (), "its default", centre=default), OMITTED]
        return [OMITTED]
    if "Callable" in (parameter.annotation or ""):
        return [Fixed(function, called, "its annotation") for called, function in hints.functions]
    if not parameter.differentiable:
        guess = hints.guesses.get(parameter.name)
        guesses = [] if guess is None else [specified(parameter.name, *guess)]
        return [*guesses, *named, *static_stand_ins(shape, hints.functions)]
    leaf = Leaf(parameter.name, shape, "probing", domain=hints.domains.get(parameter.name))
    nested = [*_objects(parameter.name, shape, hints), *_nested(parameter.name, shape, hints)]
    if parameter.name in hints.guesses:
        nested = [specified(parameter.name, *hints.guesses[parameter.name]), *nested]
    if says_not_a_float(parameter.name):
        return [*named, leaf]
    return [*nested, leaf, *named] if nested else [leaf, *named]


def _objects(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """An object of the annotated class: one that the module holds, or one made of its fields."""
    if name not in hints.classes:
        return []
    if name in hints.instances:
        return [argument(name, hints.instances[name], "an object of the module")]

    def option(field: str, annotation: str) -> Any:
        path = f"{name}.{field}"
        spec = annotated([Parameter(field, 0, True, False, annotation=annotation)]).get(field)
        if spec is not None:
            return specified(path, parse(f"{field}={spec}")[field], f"the annotation of {path}")
        named = fixed_by_name(field, shape, hints.make_key)
        return (
            named[0] if named else Leaf(path, shape, f"a field of {hints.classes[name].__name__}")
        )

    built = from_fields(hints.classes[name], option)
    return [] if built is None else [built]


def _nested(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """A dictionary of the keys that the body reads; a tuple of as many as it unpacks."""
    choices: list[Any] = []
    if name in hints.keys:
        choices.append(
            {
                k: Leaf(f"{name}[{k!r}]", shape, "the keys that the body reads")
                for k in hints.keys[name]
            }
        )
    if name in hints.unpacked:
        count = hints.unpacked[name]
        choices.append(
            tuple(Leaf(f"{name}[{i}]", shape, "the body unpacks it") for i in range(count))
        )
    return choices


def options_of_shapes(parameter: Parameter, hints: Hints) -> list[Any]:
    """Arguments for the parameter in shapes of its own, each once."""
    choices: list[Any] = []
    for shapes in itertools.product(_KEY_SHAPES, repeat=len(hints.keys.get(parameter.name, ()))):
        if len(shapes) in (2, 3) and len(set(shapes)) > 1 and parameter.differentiable:
            keys = zip(hints.keys[parameter.name], shapes, strict=True)
            choices.append(
                {
                    k: Leaf(f"{parameter.name}[{k!r}]", s, "the keys that the body reads")
                    for k, s in keys
                }
            )
    for shape in _MIXED:
        for option in options(parameter, shape, hints):
            if _key(option) not in map(_key, choices):
                choices.append(option)
    return choices


def _key(option: Any) -> str:
    """A text that is equal for equal options; arrays are compared by their text."""
    return f"{option.text} {option.source}" if isinstance(option, Fixed) else repr(option)

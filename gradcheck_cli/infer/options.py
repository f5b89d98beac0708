"""Arguments for one parameter: what its text states first, then what its name suggests, then guesses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.annotations import annotated
from gradcheck_cli.clues.classes import from_fields
from gradcheck_cli.clues.trees import tree
from gradcheck_cli.discover.makers import objects_of
from gradcheck_cli.infer.calls import argument
from gradcheck_cli.infer.divisible import divisible
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.infer.static_values import (
    PLAIN_KINDS,
    plain_values,
    several,
    source_of,
    stated_kind,
)
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import fixed_by_name, says_not_a_float
from gradcheck_cli.inputs.signature import GUESS, OMITTED, Fixed, Hints, Leaf, Parameter, changed
from gradcheck_cli.inputs.stand_ins import integers, mask, static_stand_ins, whole_numbers
from gradcheck_cli.project.input_specs import parse

_MIXED: tuple[tuple[int, ...], ...] = ((3,), (), (4,), (3, 4), (4, 5), (3, 3), (2, 3, 4))
_FEW_PARTS = 2
_MOST_OBJECTS = 4  # of a class
# A weight and its bias, for instance.
_KEY_SHAPES: tuple[tuple[int, ...], ...] = ((3, 4), (4,), ())


def options(parameter: Parameter, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """Arguments for the parameter where arrays have this shape, likeliest first."""
    if parameter.name in hints.specs:
        return [specified(parameter.name, hints.specs[parameter.name], hints.spec_source)]
    real = _options(parameter, shape, hints)
    if not hints.complex_numbers or parameter.name in hints.real_numbers:
        return real
    with_parts = [changed(option, _as_complex) for option in real]
    if parameter.name in hints.complex_numbers:
        return with_parts
    keys = set(map(_key, real))
    return [*real, *(option for option in with_parts if _key(option) not in keys)]


def _as_complex(part: Any) -> Any:
    """The part, as complex numbers where it is an array that is differentiated."""
    free = isinstance(part, Leaf) and part.centre is None
    return replace(part, is_complex=True) if free else part


def _options(parameter: Parameter, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    if parameter.name in hints.integers:
        return _of_tables(parameter.name, shape, hints) or whole_numbers(shape)
    default = parameter.default
    if default is not OMITTED:
        if isinstance(default, float) and parameter.differentiable:
            return [Leaf(parameter.name, (), "its default", centre=default), OMITTED]
        return [OMITTED, *_parts(parameter, hints)]
    kind = stated_kind(hints.clues.get(parameter.name, ()))
    if kind is Kind.FUNCTION or "Callable" in (parameter.annotation or ""):
        return _functions(parameter.name, hints)
    plain = plain_values(parameter.name, shape, hints)
    is_object = parameter.name in hints.classes  # of scalars, as a text may say
    if kind in PLAIN_KINDS and plain and not is_object:
        return [*_number(parameter, kind, hints), *plain]
    if not parameter.differentiable:
        return [
            *_held(parameter.name, hints),
            *several(parameter.name, hints),
            *plain,
            *static_stand_ins(shape, hints.functions),
        ]
    return _arrays(parameter, shape, hints, kind)


def _functions(name: str, hints: Hints) -> list[Fixed]:
    """Functions for a parameter that is called: the module's own, else some that nobody chose."""
    if name in hints.callables:
        return [hints.callables[name]]
    return [Fixed(f, called, "its annotation", invented=True) for called, f in hints.functions]


def _parts(parameter: Parameter, hints: Hints) -> list[Fixed]:
    """Fewer parts than the default's, of what divides an axis: 32 groups ask for more numbers than are tried."""
    clues = hints.clues.get(parameter.name, ())
    many = type(parameter.default) is int and parameter.default > _FEW_PARTS
    clue = next((clue for clue in clues if clue.divides), None)
    few = str(_FEW_PARTS)
    return [Fixed(_FEW_PARTS, few, clue.source)] if many and clue is not None else []


def _number(parameter: Parameter, kind: Kind, hints: Hints) -> list[Leaf]:
    """A number that may be differentiated: an array without axes."""
    if kind is not Kind.NUMBER or not parameter.differentiable:
        return []
    source = source_of(hints.clues[parameter.name])
    return [Leaf(parameter.name, (), source, domain=hints.domains.get(parameter.name))]


def _arrays(parameter: Parameter, shape: tuple[int, ...], hints: Hints, kind: Kind) -> list[Any]:
    """An array of floats, of integers or of booleans; before these, objects that hold arrays."""
    name = parameter.name
    shape = divisible(shape, hints.clues.get(name, ()))
    named = fixed_by_name(name, shape, hints.make_key)
    leaf = Leaf(name, shape, GUESS, domain=hints.domains.get(name))
    nested = [*_objects(name, shape, hints), *_nested(name, shape, hints)]
    if name in hints.guesses:
        nested = [specified(name, *hints.guesses[name]), *nested]
    nested = [_at_home(option, hints) for option in nested]
    source = source_of(hints.clues.get(name, ()))
    if kind is Kind.INTEGERS:
        return [*nested, integers(shape, source), integers(shape[:1], source), leaf]
    if kind is Kind.BOOLS:
        return [*nested, mask(shape, source), mask(shape[-1:], source), leaf]
    if says_not_a_float(name) and name not in hints.classes:
        return [*named, leaf]
    return [*nested, leaf, *named] if nested else [leaf, *named]


def _at_home(stated: Any, hints: Hints) -> Any:
    """The argument with the domains of all it holds; another source than that of its shape may have said them."""

    def within(part: Any) -> Any:
        domain = hints.domains.get(part.path) if isinstance(part, Leaf) else None
        if domain is None or part.domain not in (None, domain):
            return part
        return replace(part, domain=domain)

    return changed(stated, within)


def _objects(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """An object of the annotated class: one that the module holds, or one made of its fields."""
    if name not in hints.classes:
        return []
    if name in hints.instances:
        return [argument(name, hints.instances[name], "an object of the module")]
    return _object(name, shape, hints, lambda path, source: Leaf(path, shape, source))


def _held(name: str, hints: Hints) -> list[Fixed]:
    """Objects of its class for what is not differentiated: a configuration, the object whose method this was."""
    cls, source = hints.classes.get(name), "an object of its class"
    if name in hints.instances:
        return [Fixed(hints.instances[name], type(hints.instances[name]).__name__, source)]
    made = () if cls is None else itertools.islice(objects_of(cls), _MOST_OBJECTS)
    return [Fixed(each, cls.__name__, source) for each in made if cls is not None]


def _of_tables(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """An object of the class whose fields are integers where nothing says otherwise: the two ends of pairs.

    Then one of integers alone: brackets (`both [tokens, k]`) do not say that something holds floats.
    """
    if name not in hints.classes or name in hints.instances:
        return []

    def table(path: str, source: str) -> Fixed:
        return replace(integers(shape[:1], source), path=path)

    mixed = _object(name, shape, hints, table)
    return [*mixed, *_object(name, shape, hints, table, said=False)]


def _object(
    name: str,
    shape: tuple[int, ...],
    hints: Hints,
    unsaid: Callable[[str, str], Any],
    *,
    said: bool = True,
) -> list[Any]:
    """An object of its fields as sources state them; `unsaid` makes the others, or all arrays, of their path and a source."""

    def option(field: str, annotation: str) -> Any:
        path = f"{name}.{field}"
        spec = annotated([Parameter(field, 0, True, False, annotation=annotation)]).get(field)
        if spec is not None:
            return specified(path, parse(f"{field}={spec}")[field], f"the annotation of {path}")
        clues = hints.clues.get(path, ())
        is_array = stated_kind(clues) is Kind.ARRAY
        plain = is_array or len(field) == 1  # `y` of a point is no label
        named = [] if plain else fixed_by_name(field, shape, hints.make_key)
        source = f"a field of {hints.classes[name].__name__}"
        if named:
            return named[0]
        floats = said and any(clue.spec.startswith("f32") for clue in clues)
        return Leaf(path, shape, source) if floats else unsaid(path, source)

    built = from_fields(hints.classes[name], option)
    return [] if built is None else [built]


def _nested(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """A dictionary of the keys that the text reads; a tuple of as many as the body unpacks."""
    source = "the text reads it"
    choices: list[Any] = []
    whole = tree(name, hints.clues, lambda path: Leaf(path, shape, source))
    if whole is not None:
        choices.append(whole)
    if name in hints.keys:
        keys = hints.keys[name]
        choices.append({k: Leaf(f"{name}[{k!r}]", shape, source) for k in keys})
    if name in hints.unpacked and stated_kind(hints.clues.get(name, ())) is not Kind.ARRAY:
        count = hints.unpacked[name]
        choices.append(tuple(Leaf(f"{name}[{i}]", shape, source) for i in range(count)))
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

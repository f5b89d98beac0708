"""Objects for one parameter: that the module holds, made of the fields of their class, as its constructor makes them, or of what is read of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.annotations import annotated, whole_numbers
from gradcheck_cli.clues.classes import from_fields, is_configuration, setting_of
from gradcheck_cli.discover.makers import objects_of
from gradcheck_cli.infer.calls import argument
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.infer.static_values import stated_kind
from gradcheck_cli.infer.template import A_FIELD
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import fixed_by_name
from gradcheck_cli.inputs.signature import GUESS, Fixed, Hints, Leaf, Parameter, changed
from gradcheck_cli.inputs.stand_ins import floats, integers, mask
from gradcheck_cli.project.input_specs import parse

MADE_UP = "an object of its class"  # as the source of one says
_MOST = 4  # of a class
# For attributes whose names say nothing: the first one's number, and by how much the next one's is larger.
_PLAIN = ((0.5, 0.375), (2, 1))
_LOW, _HIGH = re.compile(r"(?:^|_)(?:lo|low|lower|min|start|floor)"), re.compile(r"(?:^|_)(?:hi|high|upper|max|end|stop|ceil|cap)")  # fmt: skip


def objects(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    """An object of the annotated class: one that the module holds, or one made of its fields."""
    if name not in hints.classes:
        return []
    if name in hints.instances:
        if hints.objects_are_held:
            return held(name, hints)
        return [argument(name, hints.instances[name], "an object of the module")]
    if is_configuration(hints.classes[name], held=hints.objects_are_held):
        return []  # `configurations` has them
    made = _object(name, shape, hints, lambda path, source: Leaf(path, shape, source))
    return [changed(each, _held) for each in made] if hints.objects_are_held else made


class Made:
    """An object of no known class, with these attributes."""

    def __init__(self, name: str, attributes: dict[str, object]) -> None:
        self._name = name
        vars(self).update(attributes)

    def __repr__(self) -> str:
        held = (f"{name}={value!r}" for name, value in vars(self).items() if name != "_name")
        return f"{self._name}({', '.join(held)})"


def of_no_class(name: str, hints: Hints) -> list[Fixed]:
    """Objects of which nothing is known but the attributes that are read: numbers by their names, or of their own, and whole ones."""
    attributes = sorted(hints.attributes.get(name, ()), key=_from_low_to_high)
    objects = (
        Made(name, {a: _value(a, first + k * step, hints) for k, a in enumerate(attributes)})
        for first, step in _PLAIN
    )
    return [Fixed(o, repr(o), GUESS, invented=True) for o in objects] if attributes else []


def _from_low_to_high(attribute: str) -> tuple[int, str]:
    """Ends of one range in their order."""
    low, high = _LOW.search(attribute), _HIGH.search(attribute)
    return (0 if low else 2 if high else 1), attribute


def _value(attribute: str, plain: float, hints: Hints) -> object:
    named = fixed_by_name(attribute, (), hints.make_key)
    return named[0].value if named else plain


def _held(part: Any) -> Any:
    """The part, as floats that stay as they are where it is an array that would be differentiated."""
    is_leaf = isinstance(part, Leaf)
    return floats(part.path, part.shape, part.source, part.domain) if is_leaf else part


def held(name: str, hints: Hints) -> list[Fixed]:
    """Objects of its class for what is not differentiated: a configuration, the object whose method this was."""
    cls, source = hints.classes.get(name), MADE_UP
    if name in hints.instances:
        return [Fixed(hints.instances[name], type(hints.instances[name]).__name__, source)]
    made = () if cls is None else itertools.islice(objects_of(cls), _MOST)
    return [Fixed(each, cls.__name__, source) for each in made if cls is not None]


def configurations(name: str, hints: Hints) -> list[Fixed]:
    """Objects of a class all of whose fields are plain values that have defaults: nothing in them is learned."""
    cls = hints.classes.get(name)
    is_one = cls is not None and is_configuration(cls, held=hints.objects_are_held)
    return held(name, hints) if is_one else []


def of_tables(name: str, shape: tuple[int, ...], hints: Hints) -> list[Any]:
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
        if (setting := setting_of(hints.classes[name], field)) is not None:
            return Fixed(setting, repr(setting), f"its default in {hints.classes[name].__name__}", path=path)  # fmt: skip
        spec = annotated([Parameter(field, 0, True, False, annotation=annotation)]).get(field)
        if spec is not None:
            return specified(path, parse(f"{field}={spec}")[field], f"the annotation of {path}")
        if numbers := whole_numbers(field, annotation):
            return Fixed(numbers, repr(numbers), f"the annotation of {path}", path=path)
        clues = hints.clues.get(path, ())
        if stated_kind(clues) is Kind.WORD:
            words = (v for clue in clues for v in clue.values if isinstance(v, str))
            word = next(words, field)
            return Fixed(word, repr(word), f"the annotation of {path}", path=path)
        is_array = stated_kind(clues) is Kind.ARRAY
        plain = is_array or len(field) == 1  # `y` of a point is no label
        named = [] if plain else fixed_by_name(field, shape, hints.make_key)
        source = f"{A_FIELD}{hints.classes[name].__name__}"
        if named:
            return named[0]
        kinds = {clue.kind for clue in clues}
        if Kind.INTEGERS in kinds:
            return replace(integers(shape[:1], source), path=path)
        if Kind.BOOLS in kinds:
            return replace(mask(shape, source), path=path)
        floats = said and any(clue.spec.startswith("f32") for clue in clues)
        return Leaf(path, shape, source) if floats else unsaid(path, source)

    built = from_fields(hints.classes[name], option)
    return [] if built is None else [built]

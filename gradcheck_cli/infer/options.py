"""Arguments for one parameter: what its text states first, then what its name suggests, then guesses."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.clues.trees import tree
from gradcheck_cli.infer.divisible import divisible
from gradcheck_cli.infer.objects import configurations, held, objects, of_no_class, of_tables
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.infer.static_values import (
    PLAIN_KINDS,
    plain_values,
    several,
    source_of,
    stated_kind,
)
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.domain import MATRICES, Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.names import (
    fixed_by_name,
    may_tell_of_each,
    says_not_a_float,
    tells_of_each,
)
from gradcheck_cli.inputs.signature import (
    GUESS,
    OMITTED,
    Fixed,
    Hints,
    Leaf,
    Parameter,
    changed,
    root,
)
from gradcheck_cli.inputs.stand_ins import floats, integers, mask, static_stand_ins, whole_numbers
from gradcheck_cli.project.input_specs import ArraySpec, condition

_MIXED: tuple[tuple[int, ...], ...] = ((3,), (), (4,), (3, 4), (4, 5), (3, 3), (2, 3, 4))
_FEW_PARTS = 2
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


def _around(default: float, domain: Domain | None) -> Domain | None:
    """The domain, if the default lies in it."""
    holds = domain is not None and domain.has(np.array([default]), format_of("float64"))
    return domain if holds else None


def _as_complex(part: Any) -> Any:
    """The part, as complex numbers where it is an array that is differentiated."""
    free = isinstance(part, Leaf) and part.centre is None
    return replace(part, is_complex=True) if free else part


def _options(parameter: Parameter, shape: tuple[int, ...], hints: Hints) -> list[Any]:
    if parameter.name in hints.integers:
        return of_tables(parameter.name, shape, hints) or whole_numbers(shape)
    default = parameter.default
    if default is not OMITTED:
        if isinstance(default, float) and parameter.differentiable:
            domain = _around(default, hints.domains.get(parameter.name))
            return [Leaf(parameter.name, (), "its default", domain=domain, centre=default), OMITTED]
        return [OMITTED, *_parts(parameter, hints)]
    kind = stated_kind(hints.clues.get(parameter.name, ()))
    made = of_no_class(parameter.name, hints) if kind is Kind.NOTHING else []
    return [*made, *_of_its_kind(parameter, shape, hints, kind)]


def _of_its_kind(
    parameter: Parameter, shape: tuple[int, ...], hints: Hints, kind: Kind
) -> list[Any]:
    if kind is Kind.FUNCTION or "Callable" in (parameter.annotation or ""):
        return _functions(parameter, hints)
    plain = plain_values(parameter.name, shape, hints)
    is_object = parameter.name in hints.classes  # of scalars, as a text may say
    if kind in PLAIN_KINDS and plain and not is_object:
        return [*_number(parameter, kind, hints), *plain]
    if not parameter.differentiable:
        return [
            *held(parameter.name, hints),
            *several(parameter.name, hints),
            *_tables(parameter.name, shape, hints),
            *_masks(parameter.name, shape, hints),
            *_held_floats(parameter.name, hints),
            *_open_floats(parameter.name, shape, hints),
            *plain,
            *static_stand_ins(shape, hints.functions),
        ]
    return _arrays(parameter, shape, hints, kind)


def _tables(name: str, shape: tuple[int, ...], hints: Hints) -> list[Fixed]:
    """Integers or booleans for what is not differentiated, where the text reads them as such."""
    clues = hints.clues.get(name, ())
    if name in hints.classes:
        return []
    made = {Kind.INTEGERS: integers, Kind.BOOLS: mask}
    stating = next((clue for clue in clues if clue.kind in made), None)
    if stating is None:
        return []
    table = made[stating.kind]
    return [table(shape, stating.source), table(shape[:1], stating.source)]


def _masks(name: str, shape: tuple[int, ...], hints: Hints) -> list[Fixed]:
    """Masks for what gets no gradient, and says what each row is: `billed`, what is 0/1, `fitted` where it is cast."""
    clues = hints.clues.get(name, ())
    stated = stated_kind(clues) not in (Kind.NOTHING, Kind.ARRAY, Kind.BOOLS)
    is_cast = re.compile(rf"\bcast\({name},|\b{name}\.(?:astype|to|type)\(")
    domain = hints.domains.get(name)
    told = tells_of_each(name) or (domain is not None and domain.bounds.family == "binary")
    cast = name in hints.cast or any(is_cast.search(clue.source) for clue in clues)
    told |= may_tell_of_each(name) and cast
    if stated or name in hints.guesses or not told:
        return []
    source = domain.source if domain is not None and domain.source else f"the name `{name}`"
    return [mask(shape, source), mask(shape[:1], source)]


def _held_floats(name: str, hints: Hints) -> list[Fixed]:
    """Floats that stay as they are, in the shape that a source states for what is not differentiated."""
    spec, source = hints.guesses.get(name, (None, ""))
    if not isinstance(spec, ArraySpec) or spec.kind != "float" or not spec.shape:
        return []
    domain = None if spec.bounds is None else Domain(spec.bounds)
    return [replace(floats(name, spec.shape, source, domain), text=spec.text, path="")]


def _open_floats(name: str, shape: tuple[int, ...], hints: Hints) -> list[Fixed]:
    """Floats that stay as they are, in whatever shape fits, for what the text takes for an array and no source gives a shape."""
    clues = hints.clues.get(name, ())
    taken = next((c for c in clues if c.kind is Kind.ARRAY or c.least_rank or c.rank), None)
    if (
        taken is None
        or name in hints.guesses
        or stated_kind(clues) not in (Kind.NOTHING, Kind.ARRAY)
    ):
        return []
    return [floats(name, shape, taken.source, hints.domains.get(name))]


def _functions(parameter: Parameter, hints: Hints) -> list[Fixed]:
    """Functions for a parameter that is called: the module's own, else some that nobody chose."""
    if parameter.name in hints.callables:
        return [hints.callables[parameter.name]]
    why = "its annotation" if parameter.annotation else "a function, since it is called"
    return [Fixed(f, called, why, invented=True) for called, f in hints.functions]


def _parts(parameter: Parameter, hints: Hints) -> list[Fixed]:
    """Fewer parts than the default's, of what divides an axis or is a factor of one: 32 groups ask for more numbers than are tried."""
    if type(parameter.default) is not int or parameter.default <= _FEW_PARTS:
        return []
    clues = [clue for clue in hints.clues.get(parameter.name, ()) if clue.divides]
    factor = re.compile(rf"(?:\*{parameter.name}\b|\b{parameter.name}\*)")
    every = (clue for of_path in hints.clues.values() for clue in of_path)
    clues += [clue for clue in every if factor.search(clue.spec)]
    return [Fixed(_FEW_PARTS, str(_FEW_PARTS), clues[0].source)] if clues else []


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
    leaf = Leaf(name, shape, GUESS, domain=_domain(name, shape, hints))
    nested = [
        *configurations(name, hints),
        *objects(name, shape, hints),
        *_nested(name, shape, hints),
    ]
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
    # A text gives its shape alone, and the body takes it for a condition.
    asked = [c for c in hints.clues.get(name, ()) if c.kind is Kind.BOOLS]
    flags = [mask(shape, asked[0].source)] if asked and name not in hints.classes else []
    clues = hints.clues.get(name, ())
    declined = any(clue.declined for clue in clues)
    nested += _masks(name, shape, hints) if declined else []
    shaped = any(clue.spec.startswith("f32[") for clue in clues)
    if shaped and any(clue.answered for clue in clues):
        named = []  # `y: (batch, hours)`, for which the rule has a gradient, is no table of labels
    return [*nested, leaf, *flags, *named] if nested else [leaf, *flags, *named]


def _domain(name: str, shape: tuple[int, ...], hints: Hints) -> Domain | None:
    """Where an array of that shape is said to live: no matrix family is asked of what is not square."""
    said = next((clue for clue in hints.clues.get(name, ()) if clue.domain), None)
    if said is not None and said.domain.removeprefix("in ") in MATRICES:
        family = Domain(condition(f"x {said.domain}")[1], said.source)
        return family if family.suits(shape) else None
    return hints.domains.get(name)


def _at_home(stated: Any, hints: Hints) -> Any:
    """The argument with the domains of all it holds; another source than that of its shape may have said them."""

    def within(part: Any) -> Any:
        domain = _domain_of_part(part.path, hints) if isinstance(part, Leaf) else None
        if domain is None or not _is_told_again(part.domain, domain, hints.domains.get(part.path)):
            return part
        return replace(part, domain=domain)

    return changed(stated, within)


def _is_told_again(own: Domain | None, *told: Domain | None) -> bool:
    """Are the bounds that came with its shape those that are told, or none?"""
    return own is None or own.bounds in [each.bounds for each in told if each is not None]


def _domain_of_part(path: str, hints: Hints) -> Domain | None:
    """Where a part of an argument lives: as is said of itself, else of all inputs; at 0 only if neither excludes it."""
    owner = root(path)
    own = hints.domains.get(path)
    of_all = any(clue.for_all for clue in hints.clues.get(owner, ()))
    whole = hints.domains.get(owner) if of_all else None
    if own is None or whole is None:
        return own or whole
    above = whole.bounds.low == own.bounds.low and whole.bounds.low_open
    if not above or own.bounds.low_open or own.bounds.family is not None:
        return own
    text = own.bounds.text.replace("[", "(", 1).replace(">=", ">")
    return replace(own, bounds=replace(own.bounds, low_open=True, text=text))


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
    is_one = stated_kind(hints.clues.get(name, ())) in (Kind.ARRAY, Kind.INTEGERS, Kind.BOOLS)
    if name in hints.unpacked and not is_one:
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

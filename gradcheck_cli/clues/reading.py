"""Hints from a function's own text: the shapes, keys and classes that it states for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues import body
from gradcheck_cli.clues.bounds import with_ends
from gradcheck_cli.clues.callables import callables, spread
from gradcheck_cli.clues.class_fields import (
    clues_of_objects,
    names_of_dimensions,
    with_signs_of_fields,
)
from gradcheck_cli.clues.classes import classes_of_arguments, instances
from gradcheck_cli.clues.dictionaries import stated_with_keys
from gradcheck_cli.clues.first_clues import (
    by_strength,
    domains,
    guesses,
    ranks_of,
    with_orders,
    without_names_of_parts,
)
from gradcheck_cli.clues.left_out import (
    left_out,
    marked_below_zero,
    outside,
    paired,
    told_below_zero,
)
from gradcheck_cli.clues.subscripts import attributes_of_no_class, keys_read, unpacked
from gradcheck_cli.clues.traits import with_traits
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Hints, Parameter


def read(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    functions: Sequence[tuple[str, Any]],
    make_key: Callable[[], Any] | None = None,
    rule: Sequence[Callable[..., Any]] = (),
    called: Mapping[str, Clue] | None = None,
) -> Hints:
    """Annotations before docstrings before calls before names before the body; keys and arrays from the source.

    `rule` are the functions of the rule, whose text speaks of the same arguments; `called` is what calls
    elsewhere say.
    """
    names = [p.name for p in parameters]
    parts = {n: p for n, p in unpacked([function, *rule]).items() if n in names}
    clues = without_names_of_parts(stated_with_keys(function, parameters, called or {}), parts)
    chosen = callables(function, parameters, rule)
    called_ones = {n: fixed.value for n, fixed in chosen.items()}
    texts = body.clues(function, parameters, rule, called_ones, ranks_of(clues))
    merged = {
        path: by_strength(clues.get(path, ()), texts.get(path)) for path in {**clues, **texts}
    }
    told = {path: [c for c in merged[path] if c is not texts.get(path)] for path in clues}
    wanted = classes_of_arguments(function, rule, names, merged)
    objects = clues_of_objects(wanted, names_of_dimensions(merged))
    merged = {p: [*objects.get(p, ()), *merged.get(p, ())] for p in {**merged, **objects}}
    merged, ends = with_ends(with_signs_of_fields(merged, wanted), parameters)
    keys = keys_read(function)
    held = [*merged, *(f"{name}[{key!r}]" for name, read in keys.items() for key in read)]
    marks = left_out([function, *rule], names)
    of_fields = {p: [*objects.get(p, ()), *clues.get(p, ())] for p in {**clues, **objects}}
    found = domains(with_orders(of_fields, texts), function, rule, [*held, *names])
    real = _with_numbers("real", merged)
    hints = Hints(
        keys=keys,
        unpacked={n: len(p) for n, p in parts.items()} | spread(function, chosen),
        functions=list(functions),
        callables=chosen,
        make_key=make_key,
        clues=merged,
        guesses=guesses({name: each for name, each in told.items() if name not in ends}),
        domains=found,
        complex_numbers=_with_numbers("complex", merged) - real,
        real_numbers=real,
        maybe_complex=_with_numbers("conjugated", merged) - real - found.keys(),
        constants=tuple(n for n, each in merged.items() if any(c.constant for c in each)),
        classes=wanted,
        attributes=attributes_of_no_class([function, *rule], names, {**wanted, **parts}),
        instances=instances(function, wanted),
        below_zero=marked_below_zero([function, *rule], names) | told_below_zero(function, names),
        outside=outside([function, *rule], names, function),
        paired=paired([function, *rule], names),
        left_out=marks - {clue.avoids for clues_of in merged.values() for clue in clues_of},
    )
    return with_traits(hints, function, rule, names)


def _with_numbers(numbers: str, clues: Mapping[str, Sequence[Clue]]) -> frozenset[str]:
    """The arguments whose numbers a source says to be of that kind."""
    return frozenset(
        name for name, each in clues.items() if any(numbers in c.numbers for c in each)
    )

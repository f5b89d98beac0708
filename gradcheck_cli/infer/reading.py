"""Hints from a function's own text: the shapes, keys and classes that it states for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.infer import body, usual_domains
from gradcheck_cli.infer.class_fields import clues_of_objects, names_of_dimensions
from gradcheck_cli.infer.classes import classes, instances, with_fields
from gradcheck_cli.infer.stated import stated
from gradcheck_cli.infer.subscripts import attributes_read, keys_read, unpacked
from gradcheck_cli.infer.surroundings import sizes
from gradcheck_cli.infer.trees import fields
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import Hints, Parameter
from gradcheck_cli.project.input_specs import Spec, SpecError, condition, parse

# Families of matrices: what has two axes can be in them, and nothing else.
_MATRICES = ("in spd", "in orthogonal", "in symmetric", "in lower", "in upper")


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
    clues = stated(function, parameters, called or {})
    texts = body.clues(function, parameters, rule)
    merged = {
        path: [*clues.get(path, ()), *_listed(texts.get(path))] for path in {**clues, **texts}
    }
    wanted = _classes(function, rule, names, merged)
    objects = clues_of_objects(wanted, names_of_dimensions(merged))
    merged = {p: [*objects.get(p, ()), *merged.get(p, ())] for p in {**merged, **objects}}
    keys = keys_read(function)
    held = [*merged, *(f"{name}[{key!r}]" for name, read in keys.items() for key in read)]
    usual = usual_domains.clues(getattr(function, "__name__", ""), held)
    return Hints(
        keys=keys,
        unpacked=unpacked(function),
        sizes=sizes(function),
        functions=list(functions),
        make_key=make_key,
        clues=merged,
        guesses=_guesses(clues),
        domains=_domains(
            {p: [*clues.get(p, ()), *_listed(usual.get(p))] for p in {**clues, **usual}}
        ),
        classes=wanted,
        instances=instances(function, wanted),
    )


def _classes(
    function: Callable[..., Any],
    rule: Sequence[Callable[..., Any]],
    names: Sequence[str],
    paths: Mapping[str, object],
) -> dict[str, type]:
    """The class of each argument that is an object: annotated, or known by the fields that are read."""
    annotated = classes(function)
    attributes = attributes_read([function, *rule])
    read_of = {name: fields(name, paths) | attributes.get(name, frozenset()) for name in names}
    by_fields = {name: with_fields(function, read_of[name]) for name in names}
    found = {name: annotated.get(name) or by_fields[name] for name in names}
    return {name: cls for name, cls in found.items() if cls is not None}


def _listed(clue: Clue | None) -> list[Clue]:
    return [] if clue is None else [clue]


def _domains(clues: Mapping[str, Sequence[Clue]]) -> dict[str, Domain]:
    """The first domain that is said of each argument and of what it holds; those of matrices stay with their spec."""
    domains: dict[str, Domain] = {}
    for name, of_name in clues.items():
        clue = next((c for c in of_name if c.domain), None)
        if clue is not None and clue.domain not in _MATRICES:
            domains[name] = Domain(condition(f"x {clue.domain}")[1], clue.source)
    return domains


def _guesses(clues: Mapping[str, Sequence[Clue]]) -> dict[str, tuple[Spec, str]]:
    """The first spec of each parameter, but those of plain numbers."""
    whole = {name: of_name for name, of_name in clues.items() if name.isidentifier()}
    first = {name: next((c for c in of_name if c.spec), None) for name, of_name in whole.items()}
    stated = {n: c for n, c in first.items() if c is not None and c.kind is not Kind.NUMBER}
    texts = {
        name: f"{name}={clue.spec} {_where(clue, clues[name])}" for name, clue in stated.items()
    }
    specs = _parsed(texts)
    return {name: (specs[name], stated[name].source) for name in specs}


def _where(clue: Clue, all_clues: Sequence[Clue]) -> str:
    """The domain of an array: from its own source, or from a later one."""
    if clue.kind is not Kind.ARRAY:
        return ""
    others = (c.domain for c in all_clues if c.domain and c.domain not in _MATRICES)
    return clue.domain or next(others, "")


def _parsed(texts: Mapping[str, str]) -> dict[str, Spec]:
    """The specs, parsed in one so that dimensions of one name are equal; each alone if these disagree."""
    try:
        return parse(", ".join(texts.values())) if texts else {}
    except SpecError:
        return {name: spec for name, text in texts.items() for spec in _alone(name, text)}


def _alone(name: str, text: str) -> list[Spec]:
    try:
        return [parse(text)[name]]
    except SpecError:
        return []

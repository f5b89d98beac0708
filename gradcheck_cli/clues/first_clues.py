"""The first domain and the first spec of each argument, among all clues: what the strongest source says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues import boxes, clip_bounds, guarded_sums, usual_domains
from gradcheck_cli.clues.orders import orders
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.domain import MATRICES, Domain
from gradcheck_cli.project.input_specs import Bounds, Spec, SpecError, condition, parse

_AXES = re.compile(r"\w+\[([^\]]*)\]")
_TOLD, _CALL = ("the docstring", "the comment"), "the call "
# Families of matrices: what has two axes can be in them, and nothing else.
_ORDERS = ("in sorted", "in increasing")
_SHARES = re.compile(r"in [\[(]0(?:\.\d+)?, (?:1(?:\.0)?|0?\.\d+)[\])]")
_LISTED = re.compile(r"in -?\d+\.\.-?\d+")
_MATRICES = frozenset(f"in {family}" for family in MATRICES)


def by_strength(stated: Sequence[Clue], body: Clue | None) -> list[Clue]:
    """What is stated before what the body says; but what it counts with is no array, whatever brackets say.

    And of what the body takes an axis, a call that hands it a number is not meant.
    """
    if any(
        _is_call_with_booleans(clue) for clue in stated
    ):  # `counted: bool` of which there is one each
        stated = [clue for clue in stated if clue.kind is not Kind.FLAG]
    if body is None:
        return list(stated)
    stated = [clue for clue in stated if not (_is_number(clue) and body.least_rank)]
    if _is_of_marks(body) and any(_SHARES.fullmatch(clue.domain) for clue in stated):
        body = replace(body, kind=Kind.ARRAY, domain="")
    if body.kind is Kind.INTEGERS:
        stated = [_of_integers(clue, body) for clue in stated]
    if body.kind is Kind.BOOLS and (body.declined or body.constant):
        stated = [_of_booleans(clue) for clue in stated]
    counts = body.kind is Kind.SHAPE and bool(body.values)
    is_array = any(clue.kind is Kind.ARRAY for clue in stated)
    return [body, *stated] if counts and is_array else [*stated, body]


def _is_of_marks(body: Clue) -> bool:
    """Are they integers for no more than what they are compared with, which floats are, too?"""
    return body.kind is Kind.INTEGERS and _LISTED.fullmatch(body.domain) is not None


def _is_number(clue: Clue) -> bool:
    """Does a call say that it is a single number of floats?"""
    return clue.source.startswith(_CALL) and clue.kind is Kind.NUMBER


def _is_call_with_booleans(clue: Clue) -> bool:
    """Does a call hand over an array of truth values?"""
    return clue.source.startswith(_CALL) and clue.kind is Kind.BOOLS and bool(clue.rank)


def _of_booleans(clue: Clue) -> Clue:
    """What a text gives a shape, and no type, where the body takes a mask: what `where` chooses by."""
    if clue.kind is not Kind.ARRAY or not _is_told(clue):
        return clue
    return replace(clue, spec=f"bool{clue.spec.removeprefix('f32')}", kind=Kind.BOOLS, domain="")


def _is_told(clue: Clue) -> bool:
    """Does a text say which axes an array has, and is it one of floats for want of a word?"""
    return clue.source.startswith(_TOLD) and clue.spec.startswith("f32[")


def _of_integers(clue: Clue, body: Clue) -> Clue:
    """What a text gives a shape, and no type, where the body takes integers; that it is an array is nothing new of what gets no gradient."""
    if clue.kind is Kind.ARRAY and not clue.spec and body.declined and not _is_of_marks(body):
        return replace(clue, kind=Kind.INTEGERS)
    if clue.kind is not Kind.ARRAY or not _is_told(clue):
        return clue
    return replace(clue, spec=f"i32{clue.spec.removeprefix('f32')}", kind=Kind.INTEGERS, domain="")


def with_orders(
    stated: Mapping[str, Sequence[Clue]], of_body: Mapping[str, Clue]
) -> dict[str, Sequence[Clue]]:
    """What is stated, and which arrays the body takes for ordered: a grid that it searches, edges of which it takes distances."""
    ordered = {path: clue for path, clue in of_body.items() if clue.domain in _ORDERS}
    return {**stated, **{path: [*stated.get(path, ()), clue] for path, clue in ordered.items()}}


def domains(
    clues: Mapping[str, Sequence[Clue]],
    function: Callable[..., Any],
    rule: Sequence[Callable[..., Any]],
    paths: Iterable[str],
) -> dict[str, Domain]:
    """The first domain that is said of each argument and of what it holds, or usual by its sum, by what it bounds or by its name.

    Those of matrices stay with their spec.
    """
    found: dict[str, Domain] = {}
    of_names = usual_domains.clues(usual_domains.named(function), paths)
    named = {*clues, *paths}
    of_sums = guarded_sums.clues([function, *rule], named)
    of_clips = clip_bounds.clues([function, *rule], named)
    sources = (boxes.clues([function, *rule], clues), of_sums, of_names, of_clips)
    spoken_of = dict.fromkeys(path for each in sources for path in each)
    usual = {p: [each[p] for each in sources if p in each] for p in spoken_of}
    every = {path: [*clues.get(path, ()), *usual.get(path, ())] for path in {**clues, **usual}}
    for name, of_name in every.items():
        clue = next((c for c in of_name if c.domain), None)
        if clue is not None and clue.domain not in _MATRICES:
            found[name] = Domain(condition(f"x {clue.domain}")[1], clue.source)
    for name, above in orders([function, *rule], named).items():
        found[name] = replace(found.get(name, Domain(Bounds())), above=above)
    return found


def guesses(clues: Mapping[str, Sequence[Clue]]) -> dict[str, tuple[Spec, str]]:
    """The first spec of each parameter, but those of plain numbers."""
    whole = {name: of_name for name, of_name in clues.items() if name.isidentifier()}
    first = {name: next((c for c in of_name if c.spec), None) for name, of_name in whole.items()}
    stated = {n: c for n, c in first.items() if c is not None and c.kind is not Kind.NUMBER}
    texts = {
        name: f"{name}={clue.spec} {_where(clue, clues[name])}" for name, clue in stated.items()
    }
    specs = _parsed(texts)
    return {name: (specs[name], stated[name].source) for name in specs}


def ranks_of(clues: Mapping[str, Sequence[Clue]]) -> dict[str, int]:
    """How many axes the strongest source gives to each array of which one says it."""
    found = {
        name: [rank for c in of_name if (rank := _rank(c)) is not None]
        for name, of_name in clues.items()
    }
    return {name: ranks[0] for name, ranks in found.items() if ranks}


def _rank(clue: Clue) -> int | None:
    axes = _AXES.match(clue.spec)
    if axes is None or "..." in axes[1]:
        return clue.rank
    return len(axes[1].replace(",", " ").split())


def without_names_of_parts(
    clues: Mapping[str, Sequence[Clue]], parts: Mapping[str, Sequence[str]]
) -> dict[str, list[Clue]]:
    """The clues but those whose axes are the names that the body unpacks the argument into.

    `state (h, c)` is no matrix where the body says `h, c = state`.
    """
    return {
        name: [c for c in of_name if not _names(c) or _names(c) != list(parts.get(name, ()))]
        for name, of_name in clues.items()
    }


def _names(clue: Clue) -> list[str]:
    """The names of the axes of an array."""
    match = _AXES.fullmatch(clue.spec)
    return [] if match is None else match[1].replace(",", " ").split()


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

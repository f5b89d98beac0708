"""The comment to add where no inputs were accepted: a spec for each parameter, of what its sources say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Hints, Parameter
from gradcheck_cli.project.input_specs import SpecError, parse

_AXES = ("h", "k", "m", "n")  # the last of these, for so many axes
_KEY = re.compile(r"[\w./ -]+")
_PLAIN = {
    Kind.NUMBER: "0.5", Kind.WHOLE: "2", Kind.AXIS: "-1", Kind.FLAG: "False", Kind.DTYPE: "'float32'",
    Kind.SHAPE: "(3, 4)",
}  # fmt: skip
_DTYPES = {Kind.INTEGERS: "i32", Kind.BOOLS: "bool"}
_UNSAID = (Kind.FUNCTION, Kind.KEY)  # no text stands for a function, nor for an object


def comment_to_add(parameters: Sequence[Parameter], hints: Hints) -> str:
    """`x=f32[m n], w=f32[n]`: valid as it stands; empty if there is nothing that a comment can say.

    What has a default is left out: it is not what is missing.
    """
    needed = [p for p in parameters if p.default is OMITTED and not p.variadic]
    stated = {p.name: spec for p in needed for spec in _specs(p, hints, stated=True)}
    plain = {p.name: spec for p in needed for spec in _specs(p, hints, stated=False)}
    for specs in (stated, {n: s if _valid({n: s}) else plain[n] for n, s in stated.items()}, plain):
        if specs and _valid(specs):
            return _joined(specs)
    return ""


def _joined(specs: dict[str, str]) -> str:
    return ", ".join(f"{name}={spec}" for name, spec in specs.items())


def _valid(specs: dict[str, str]) -> bool:
    try:
        return set(parse(_joined(specs))) == set(specs)
    except SpecError:
        return False


def _specs(parameter: Parameter, hints: Hints, *, stated: bool) -> Iterator[str]:
    """The spec of a parameter, from its sources' own words where these are wanted; none of a function."""
    name = parameter.name
    clues = hints.clues.get(name, [])
    kind = next((c.kind for c in clues if c.kind is not Kind.NOTHING), Kind.NOTHING)
    own = next((c.spec for c in clues if c.spec), "") if stated else ""
    value = next((repr(v) for c in clues for v in c.values), "")
    if own:
        yield own
    elif (
        kind in _UNSAID
        or "Callable" in (parameter.annotation or "")
        or (name in hints.attributes and kind is Kind.NOTHING)
    ):
        return
    elif name in hints.keys and all(map(_KEY.fullmatch, hints.keys[name])):
        parts = (f"{k}: {_array(hints.clues.get(f'{name}[{k!r}]', []))}" for k in hints.keys[name])
        yield f"{{{', '.join(parts)}}}"
    elif name in hints.unpacked:
        places = range(hints.unpacked[name])
        yield f"({', '.join(_array(hints.clues.get(f'{name}[{i}]', [])) for i in places)})"
    elif kind in _PLAIN or kind is Kind.WORD or (value and not parameter.differentiable):
        yield value or _PLAIN.get(kind, "''")
    elif kind is Kind.NOTHING and not parameter.differentiable:
        yield _PLAIN[Kind.NUMBER]
    else:
        yield _array(clues)


def _array(clues: Sequence[Clue]) -> str:
    """An array of as many axes as a source says; one axis where none does."""
    kind = next((c.kind for c in clues if c.kind is not Kind.NOTHING), Kind.NOTHING)
    ranks = (c.rank for c in clues if c.rank is not None)
    rank = next(ranks, max([1, *(c.least_rank for c in clues)]))
    axes = [f"{name}{i}" if i else name for i in range(1 + rank // 4) for name in reversed(_AXES)]
    shape = " ".join(reversed(axes[:rank]))
    domain = next((f" {c.domain}" for c in clues if c.domain), "") if kind is Kind.ARRAY else ""
    return f"{_DTYPES.get(kind, 'f32')}[{shape}]{domain}"

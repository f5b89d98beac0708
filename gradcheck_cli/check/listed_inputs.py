"""The inputs of a subject as the report lists them: shape, range of the values, where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradcheck_cli.contract.report import Input
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Parameter
from gradcheck_cli.subject.protocol import Shaped
from gradcheck_cli.subject.results import Array

_PLAIN = (type(None), bool, int, float, complex, str)
_MOST_LETTERS = 40


def listed_inputs(
    subject: Shaped, parameters: Sequence[Parameter], points: Points | None
) -> tuple[Input, ...]:
    """Each argument in its place, each part of it by its own path; arrays with their range, or their domain."""
    defaults = {p.name: p.default for p in parameters}
    arrays = [None] * len(subject.leaves) if points is None else points.leaves
    ranges = {
        leaf.path: _range(leaf, array) for leaf, array in zip(subject.leaves, arrays, strict=True)
    }
    arguments = subject.signature.arguments
    parts = dict(part for name, value in arguments for part in _parts(name, value))
    parts |= {leaf.path: leaf for leaf in subject.leaves if leaf.path not in parts}  # variables
    listed = (_input(path, part, subject.dtype, ranges, defaults) for path, part in parts.items())
    return tuple(item for item in listed if item is not None)


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an argument, in the order in which they are supplied."""
    if isinstance(value, Leaf):
        yield from ((leaf.path, leaf) for leaf in value.parts)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _parts(f"{path}[{key!r}]", value[key])
    elif isinstance(value, Built):
        for field, item in zip(value.fields, value.parts, strict=True):
            yield from _parts(f"{path}.{field}", item)
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _parts(f"{path}[{i}]", item)
    else:
        yield path, value


def _input(
    path: str, part: Any, dtype: str, ranges: dict[str, str], defaults: dict[str, Any]
) -> Input | None:
    if isinstance(part, Leaf):
        domain = ranges.get(path, _range(part, None))
        return Input(
            path=path, dtype=dtype, shape=list(part.shape), domain=domain, source=_source(part)
        )
    if isinstance(part, Fixed):
        shape = list(getattr(part.value, "shape", ()))
        return Input(path=path, dtype="fixed", shape=shape, domain=part.text, source=part.source)
    default = defaults.get(path, OMITTED)
    if part is not OMITTED or default is OMITTED:
        return None
    return Input(path=path, dtype="fixed", shape=[], domain=_text(default), source="its default")


def _range(leaf: Leaf, array: Array | None) -> str:
    """The range of the values that were tried, or the domain if there are none."""
    if array is not None and array.size:
        return f"[{float(array.min()):g}, {float(array.max()):g}]"
    return leaf.domain.text if leaf.domain is not None else ""


def _source(leaf: Leaf) -> str:
    """Where the shape comes from; the domain too, if it comes from elsewhere."""
    domain = leaf.domain
    if domain is None:
        return leaf.source
    below = f"; above `{'`, `'.join(domain.above)}`" if domain.above else ""
    if domain.source in ("", leaf.source):
        return f"{leaf.source}{below}"
    return f"{leaf.source}; `{domain.text}` by {domain.source}{below}"


def _text(default: object) -> str:
    """A plain default as Python writes it, another one by its type: its own text would be user code."""
    parts = default if type(default) is tuple else (default,)
    plain = all(type(part) in _PLAIN for part in parts)
    return repr(default)[:_MOST_LETTERS] if plain else f"a {type(default).__name__}"

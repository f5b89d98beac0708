"""The domain of a function without one: lengths from one on, families of arrays, other sizes, where plain numbers give no value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.inputs.stand_ins import tuples
from gradcheck_cli.project.input_specs import Bounds
from gradcheck_cli.subject.protocol import CustomGradient, Runner, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

Array = np.ndarray[Any, Any]

# From the widest to the narrowest.
_FAMILIES = ("positive", "spd", "orthogonal", "unit", "simplex", "sorted")
# Kelvins beside shares, or hundredths beside hundreds: where a function takes one in another unit than the rest.
_SIZES = ((100.0, 1000.0), (1e-3, 0.1))
_SQUARE = ("spd", "orthogonal")
_LOOKED_AT, _FEWEST = 24, 4
_TAME = 1e3  # what overflows says nothing of a domain
_SELDOM, _MOSTLY = 0.25, 0.5
_MEMBERS = 4  # of a pair, a triple or a quadruple of places


def at_home(
    gradient: CustomGradient,
    subject: Subject,
    points: Sequence[Array],
    values: Sequence[Array],
    fmt: Format,
    outside: Array | None = None,
    too_far: Array | None = None,
) -> Subject:
    """The subject as it is, or fitted with domains in which it has values most of the time.

    `values` are what it gave at the points; `outside` says where it has none over the reals, whatever floats give,
    and `too_far` where no float holds what it has, or nothing is known to be there.
    """
    tame = np.all([(np.abs(p.reshape(len(p), -1)) <= _TAME).all(axis=1) for p in points], axis=0)
    rows = [p[tame][:_LOOKED_AT] for p in points]
    if len(rows[0]) < _FEWEST:
        return subject
    has_values = _finite(v[tame][:_LOOKED_AT] for v in values) >= _SELDOM
    is_inside = outside is None or bool(1 - outside[tame][:_LOOKED_AT].mean() >= _SELDOM)
    if has_values and is_inside:
        return subject
    for other in _with_other_tables(subject.signature):
        try:
            there = gradient.fit(other, subject.dtype)
        except (Rejected, RuleError):
            continue
        if _share(there, rows) >= _MOSTLY:
            return there
    # Floats alone judge families: where they are numbers anyway, these say nothing.
    if has_values:
        return subject
    bounded = any(leaf.is_bounded for leaf in subject.leaves)
    # Where the reals have a number that the floats do not reach, it is these that are to be told of.
    is_too_far = too_far is not None and bool(too_far[tame][:_LOOKED_AT].mean() > 1 - _SELDOM)
    homes = (*(_sizes(subject) if is_too_far else ()), *(() if bounded else _families(subject)))
    for domain, names in homes:
        moved = [
            domain.into(r, fmt) if leaf.path in names else r
            for leaf, r in zip(subject.leaves, rows, strict=True)
        ]
        if _share(subject, moved) < _MOSTLY:
            continue
        try:
            return gradient.fit(_within(subject.signature, names, domain), subject.dtype)
        except (Rejected, RuleError):
            return subject
    return subject


def _families(subject: Subject) -> Iterator[tuple[Domain, Sequence[str]]]:
    """Each family for all arguments that may be of it, then for one of them after the other."""
    for family in _FAMILIES:
        chosen = [leaf.path for leaf in subject.leaves if _fits(family, leaf)]
        for names in dict.fromkeys((tuple(chosen), *((name,) for name in chosen))):
            yield Domain(Bounds(family=family, text=family)), names


def _sizes(subject: Subject) -> Iterator[tuple[Domain, Sequence[str]]]:
    """Each size for one argument after the other of which nothing says how large it is, beside others."""
    free = [leaf.path for leaf in subject.leaves if not leaf.is_bounded]
    for low, high in _SIZES if len(subject.leaves) > 1 else ():
        bounds = Bounds(low, high, text=f"in [{low:g}, {high:g}]")
        yield from ((Domain(bounds), (name,)) for name in free)


def _with_other_tables(signature: Signature) -> Iterator[Signature]:
    """The signature with lengths from one on, with two tables that differ everywhere, with counts of the places of another, then with one short, full, or of such pairs."""
    counts = [(table, np.asarray(table.value)) for table in _tables(signature)]
    if any((array == 0).any() for _, array in counts):
        counts = [(table, np.maximum(array, 1)) for table, array in counts]
        yield _with_tables(signature, counts)
    apart = list(_apart(counts))
    if apart:
        yield _with_tables(signature, [*apart, *counts])
    for table, array in counts:
        for room in _with_room(table, array, counts):
            yield _with_tables(signature, [(table, room), *((t, t.value) for t, _ in counts)])
        for changed in _changed(array):
            yield _with_tables(signature, [(table, changed), *counts])
            yield _with_tables(signature, [(table, changed)])


def _apart(tables: Sequence[tuple[Fixed, Array]]) -> Iterator[tuple[Fixed, Array]]:
    """Tables with other integers where one before has the same: between a place and itself there is no direction."""
    for number, (table, array) in enumerate(tables):
        same = [a for _, a in tables[:number] if a.shape == array.shape and (a == array).any()]
        if same:
            count = int(max(array.max(), same[0].max())) + 1
            yield table, np.where(array == same[0], (array + 1) % count, array).astype(array.dtype)


def _with_room(
    table: Fixed, array: Array, tables: Sequence[tuple[Fixed, Array]]
) -> Iterator[Array]:
    """The table as counts that leave room for each place that another one names in a row of its own: `levels[:, k] < level_counts[k]`."""
    for other, places in ((t, a) for t, a in tables if array.ndim == 1 and t is not table):
        for axis in (k for k, n in enumerate(places.shape) if n == len(array)):
            rest = tuple(k for k in range(places.ndim) if k != axis)
            most = np.asarray(other.value).max(axis=rest)
            yield np.maximum(most + 1, 1).astype(array.dtype)


def _changed(array: Array) -> Iterator[Array]:
    if array.ndim == 1:
        yield np.full_like(array, array.min())
        yield np.full_like(array, array.max())
    elif array.ndim == 2 and array.shape[-1] <= _MEMBERS:
        yield tuples(array.shape, int(array.max()) + 1, 1, "").value


def _tables(signature: Signature) -> list[Fixed]:
    """Arrays of integers in the arguments, and in what these hold."""
    found: list[Fixed] = []

    def seen(part: Any) -> Any:
        dtype = getattr(part.value, "dtype", None) if isinstance(part, Fixed) else None
        if getattr(dtype, "kind", "") in ("i", "u") and part.value.size > 1:
            found.append(part)
        return part

    signature.changed(seen)
    return found


def _with_tables(signature: Signature, arrays: Sequence[tuple[Fixed, Array]]) -> Signature:
    """The signature with other integers in its tables; the first that is given for one counts."""

    def other(part: Any) -> Any:
        given = next((array for table, array in arrays if table is part), None)
        return part if given is None else replace(part, value=given)

    return signature.changed(other)


def _share(subject: Runner, rows: Sequence[Array]) -> float:
    """The share of these points at which every output is a number."""
    try:
        outs = subject.primal_values(rows)
    except (Rejected, UserCodeError):  # it raises outside of its domain
        return 0.0
    return _finite(outs)


def _finite(outs: Iterable[Array]) -> float:
    finite = [np.isfinite(out.reshape(len(out), -1)).all(axis=1) for out in outs]
    return float(np.mean(np.all(finite, axis=0)))


def _fits(family: str, leaf: Leaf) -> bool:
    if family in _SQUARE:
        return len(leaf.shape) >= 2 and leaf.shape[-1] == leaf.shape[-2]
    return family == "positive" or bool(leaf.shape)


def _within(signature: Signature, names: Sequence[str], domain: Domain) -> Signature:
    source = "it has no value at most plain numbers"

    def moved(value: Any) -> Any:
        if isinstance(value, Leaf) and any(part.path in names for part in value.parts):
            return replace(value, domain=domain, source=source)
        return value

    return signature.changed(moved)

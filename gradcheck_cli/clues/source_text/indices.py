"""Indices: what `x[:, 0]`, `x[..., None]`, `q[..., 3]`, `x[:n]`, `table[ids]` and `.at[ids]` say."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.clues.source_text.computed import along
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.sizes import COUNTS, STEPS
from gradcheck_cli.clues.source_text.values import (
    At,
    Computed,
    Constant,
    Content,
    Dim,
    Fresh,
    Many,
    Part,
    Rank,
    Scalar,
    Span,
    Taken,
    Times,
    Value,
    elements,
    in_another_shape,
    itself,
    reshaped,
    whole,
    widened,
)
from gradcheck_cli.inputs.clue import Kind

Item = tuple[ast.expr, Value]  # one entry between the brackets, and what it is


def items(index: ast.expr, value: Value) -> list[Item]:
    """The entries between the brackets."""
    if isinstance(index, ast.Tuple):
        values = value.items if isinstance(value, Many) else (None,) * len(index.elts)
        return list(zip(index.elts, values, strict=True))
    return [(index, value)]


def indexed(base: Value, index: ast.expr, value: Value, facts: Facts) -> Value:
    """What an array gives at an index, where that can be followed."""
    if isinstance(base, At):
        if base.of is None:
            _integers(items(index, value), facts)
        indexed(base.of, index, value, facts)
        return replace(base.of, itself=False) if isinstance(base.of, Part) else base.of
    entries = items(index, value)
    if isinstance(base, Content):
        return _seen(base, entries)
    if isinstance(base, Part):
        return _of_part(base, entries, facts)
    if isinstance(base, Computed):
        _cut(base, entries, facts)
    if isinstance(base, Fresh):
        _beside_ranges(entries, facts)
        for place, (_, entry) in enumerate(entries):
            size = base.sizes[place] if place < len(base.sizes) else None
            if isinstance(size, Rank):
                facts.kind(entry, Kind.AXIS)
            elif elements(entry):
                facts.kind(entry, Kind.INTEGERS)
                facts.below(entry, size)
        return in_another_shape(base)
    if len(entries) > 1 and not isinstance(base, Many):
        _integers(entries, facts)
    return None


def _cut(base: Value, entries: Sequence[Item], facts: Facts) -> None:
    """`gates[:, 2 * n : 3 * n]`, `gates[:, 3 * n :]`: the axis has so many pieces of one size, or more."""
    consuming = [value for node, value in entries if not _is_new((node, value))]
    if not consuming or not isinstance(consuming[-1], Span):
        return
    cut, start, stop = along(base, _last(consuming)), consuming[-1].start, consuming[-1].stop
    if cut is None:
        return
    if isinstance(stop, Times):
        facts.times(cut, stop.count, stop.dim)
    elif stop is None and isinstance(start, Times):
        facts.times(cut, start.count + 1, start.dim)


def _last(entries: Sequence[Value]) -> Constant:
    """The axis of the last of these entries."""
    return Constant(-1 if Constant(...) in entries else len(entries) - 1)


def slice_bounds(values: Sequence[Value], facts: Facts) -> None:
    """Parameters between colons are whole numbers: `x[:n]`, `x[::stride]`."""
    lower, upper, step = values
    for bound in (lower, upper):
        facts.kind(bound, Kind.WHOLE, COUNTS)
    facts.kind(step, Kind.WHOLE, STEPS)


def _integers(entries: Sequence[Item], facts: Facts) -> None:
    for _, entry in entries:
        facts.kind(entry, Kind.INTEGERS)
    _beside_ranges(entries, facts)


def _beside_ranges(entries: Sequence[Item], facts: Facts) -> None:
    """`logp[jnp.arange(n), labels]`: there are n labels."""
    ranges = [v.sizes[0] for _, v in entries if isinstance(v, Fresh) and len(v.sizes) == 1]
    for _, value in entries if ranges else ():
        part = itself(value)
        if part is not None:
            facts.rank(part, 1)
            if isinstance(ranges[0], Dim):
                facts.equal(facts.axis(part, 0), ranges[0])


def _of_part(part: Part, entries: list[Item], facts: Facts) -> Value:
    consuming = [e for e in entries if not _is_new(e) and not _is_dots(e)]
    dots = [i for i, entry in enumerate(entries) if _is_dots(entry)]
    unclear = len(entries) == 1 and consuming and _unclear(entries[0])
    if unclear:
        _indexed_by(part, 0, entries[0], facts)
    else:
        facts.least_rank(part, len(consuming))
        front = [e for e in entries[: dots[0] if dots else None] if not _is_new(e)]
        back = [e for e in entries[dots[0] + 1 :] if not _is_new(e)] if dots else []
        _beside_ranges(entries, facts)
        for axis, entry in enumerate(front):
            _one(part, axis, entry, facts)
        for axis, entry in enumerate(back):
            _one(part, axis - len(back), entry, facts)
    taken = _taken(part, entries, facts)
    if taken is not None:
        return taken
    numbers = [whole(value) is not None or isinstance(value, (Scalar, Dim)) for _, value in entries]
    if all(numbers) and not dots:
        return replace(part, dropped=part.dropped + len(entries))
    kept = all(_is_dots(e) or _everything(e[0]) for e in entries)
    if kept:
        return replace(part, itself=False)
    return _seen(part, entries)


def _taken(part: Part, entries: Sequence[Item], facts: Facts) -> Taken | None:
    """`table[ids]`, where a source says how many axes the integers have."""
    ids = itself(entries[0][1]) if len(entries) == 1 and not part.dropped else None
    rank = None if ids is None else facts.stated_ranks.get(ids.path)
    return None if ids is None or rank is None else Taken(part, ids.path, rank)


def _seen(value: Value, entries: Sequence[Item]) -> Value:
    """The elements of a value, all or some of them, with new axes."""
    news = sum(map(_is_new, entries))
    kept = [_is_new(e) or _is_dots(e) or _everything(e[0]) for e in entries]
    if all(kept):
        return widened(value, news)
    sliced = all(k or _is_cut(e) for k, e in zip(kept, entries, strict=True))
    return reshaped(value) if sliced else None


def _is_cut(entry: Item) -> bool:
    """Is it a slice, or one place: `pairs[:, 0]`, `valid[:, t]` in a loop?"""
    one = whole(entry[1]) is not None or isinstance(entry[1], Scalar)
    return one or isinstance(entry[0], ast.Slice)


def _one(part: Part, axis: int, entry: Item, facts: Facts) -> None:
    """One entry at one axis."""
    node, value = entry
    number = whole(value)
    if isinstance(node, ast.Slice):
        low, high = _constant(node.lower), _constant(node.upper)
        reach = [n + 1 if n >= 0 else 1 - n for n in (low,) if n is not None and n != 0]
        reach += [n if n > 0 else 1 - n for n in (high,) if n is not None]
        facts.least_size(facts.axis(part, axis), max(reach, default=0))
    elif number is not None:
        facts.column(facts.axis(part, axis), number)
    elif elements(value):
        facts.kind(value, Kind.INTEGERS)
        if facts.shapes_hold:
            facts.below(value, facts.axis(part, axis))
    elif isinstance(value, Dim) and facts.shapes_hold:
        facts.dims.root(value)
    else:
        _indexed_by(part, axis, entry, facts)


def _indexed_by(part: Part, axis: int, entry: Item, facts: Facts) -> None:
    """`weight[nodes] + bias[nodes]`: whatever these are, integers, a mask or a tuple, both have as many rows."""
    node, value = entry
    if value is None and isinstance(node, ast.Name) and not part.dropped and axis >= 0:
        facts.indexed_by(node.id, facts.axis(part, axis))


def _constant(node: ast.expr | None) -> int | None:
    try:
        number = None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return number if type(number) is int else None


def _everything(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Slice)
        and node.lower is None
        and node.upper is None
        and node.step is None
    )


def _is_new(entry: Item) -> bool:
    return entry[1] == Constant(None) or _called(entry[0], "newaxis")


def _is_dots(entry: Item) -> bool:
    return entry[1] == Constant(...)


def _called(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _unclear(entry: Item) -> bool:
    """Might the entry be a tuple, a mask, or None?"""
    node, value = entry
    return value is None and not isinstance(node, ast.Slice)

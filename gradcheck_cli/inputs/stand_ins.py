"""Stand-ins for arguments that are not differentiated and have no telling name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import GUESS, Fixed

Array = np.ndarray[Any, Any]

_PERIOD = 5  # of later masks
_FEW_PLACES = 16  # in which another integer is tried
_STRIDES = (2, 3, 5, 7, 11, 13)  # from one integer of a table to the next
_FEW_ROWS = 3  # with no more of them, a row that repeats takes one away
_SOME = 4  # integers, of which one may be left out
_COLUMNS = 3  # of pairs, one would be twice the same
_CLASSES = 3  # with two, one of which is alone, no two rows of a kind would be left beside others


def static_stand_ins(
    shape: tuple[int, ...], functions: list[tuple[str, Callable[..., Any]]]
) -> list[Fixed]:
    """Values that commonly fill a non-differentiated argument."""
    values = [
        Fixed(0.5, "0.5", GUESS),
        Fixed(2, "2", GUESS),
        Fixed(True, "True", GUESS),
    ]
    values += [Fixed(function, name, GUESS, invented=True) for name, function in functions]
    values += [
        Fixed(np.ones(shape, np.float32), f"ones{list(shape)}", GUESS),
        Fixed(np.zeros(shape, np.int32), f"i32{list(shape)}", GUESS),
        Fixed(None, "None", GUESS),
        Fixed((), "()", GUESS),
    ]
    return values


def whole_numbers(shape: tuple[int, ...]) -> list[Fixed]:
    """Small whole numbers, as places in an array are: an array, a single one, a Python number."""
    return [*(integers(s, GUESS) for s in dict.fromkeys((shape, shape[:1], ()))), Fixed(1, "1", GUESS)]  # fmt: skip


def integers(shape: tuple[int, ...], source: str) -> Fixed:
    """An integer array of 0, 2 and 1 in turn; along a single axis one of them comes once."""
    size = int(np.prod(shape, dtype=int))
    turned = np.arange(size) * 2 % 3
    chosen = _with_one_alone(turned) if len(shape) == 1 else turned
    values = chosen.astype(np.int32).reshape(shape)
    return Fixed(values, f"i32{list(shape)}", source)


def table(
    shape: tuple[int, ...],
    count: int,
    source: str,
    ascending: bool = False,
    turn: int = 0,
    least: int = 0,
) -> Fixed:
    """So many integers from the least on: the last and the first repeat, one between is left out, none in order.

    Another `turn` gives other ones: two tables that are alike make a graph that is its own mirror image.
    """
    size = int(np.prod(shape, dtype=int))
    first = np.resize(np.asarray([count - 1, 0, count - 1, 1 if count > 3 else 0, 0]), size)
    found = [_finished(first, shape, count, ascending)]
    for n in range(1, turn + 1):
        every = _options(first, _turned(size, count, n), count)
        finished = [_finished(option, shape, count, ascending) for option in every]
        if count <= 2:  # both classes are in it, and it is not the opposite of the first
            mixed = [f for f in finished if len(set(f.tolist())) == count]
            finished = [f for f in mixed if (f == found[0]).any()] or mixed or finished
        found.append(_unlike_all(finished, found))
    return Fixed((least + found[-1]).astype(np.int32).reshape(shape), f"i32{list(shape)}", source)


def _options(first: Array, turned: Array, count: int) -> Iterator[Array]:
    """The turned table, and if that will not do the first one with another integer in one of its places."""
    yield turned
    for place in range(min(len(first), _FEW_PLACES)):
        yield np.where(np.arange(len(first)) == place, (first + 1) % count, first)


def _unlike_all(options: Sequence[Array], found: Sequence[Array]) -> Array:
    """The first option that is none of those found; else one that is not the first of these, if there is any."""
    new = (o for o in options if all((o != f).any() for f in found))
    other = (o for o in options if (o != found[0]).any())
    return next(itertools.chain(new, other), options[0])


def _turned(size: int, count: int, turn: int) -> Array:
    """Integers below a count that go on by a stride, from another one at each turn; of many, one but the first is left out."""
    # With another stride some would never come.
    stride = next(n for n in _STRIDES if math.gcd(n, count) == 1 or n == _STRIDES[-1])
    turned = np.asarray((np.arange(size) * stride + turn) % count)
    if count >= _SOME and size >= 2 * count:
        absent = 1 + turn % (count - 1)
        turned = np.where(turned == absent, 1 + absent % (count - 1), turned)
    if 2 < size <= count:  # each would come once; not the first: it repeats in the table beside
        turned[-1] = turned[1]
    return turned


def _finished(values: Array, shape: tuple[int, ...], count: int, ascending: bool) -> Array:
    """Such integers as a table has them: rows that differ, one that comes once, one pair, or all in order."""
    if len(shape) == 2 and not ascending:
        values = _unlike(_rows_apart(values.reshape(shape), count)).reshape(-1)
    if len(shape) == 1:
        values = _with_one_pair(_with_one_alone(values))
    return np.sort(values) if ascending else values


def _with_one_pair(values: Array) -> Array:
    """The table with a last row that is alike to the second one, in every table: pairs of them repeat, too."""
    if len(values) <= _FEW_ROWS:
        return values
    return np.asarray([*values[:-1], values[1]])


def _with_one_alone(values: Array) -> Array:
    """The table with one of three or more integers that comes once: a class of a single row has no pairs."""
    found, counts = np.unique(values, return_counts=True)
    if len(found) < _CLASSES or (counts < 2).any():
        return values
    alone, other = found[np.argsort(counts, kind="stable")[:2]]
    again = np.flatnonzero(values == alone)[1:]
    return np.asarray(np.where(np.isin(np.arange(len(values)), again), other, values))


def _rows_apart(rows: Array, count: int) -> Array:
    """The table with rows that differ: two that are alike are edges that all begin where they end.

    Of several columns every other one has the same integer in two rows in turn, unless a row would then hold one
    integer alone: what is added to one place twice is more than once.
    """
    if len(rows) < 2 or rows.shape[1] == 0 or (rows != rows[0]).any():
        return rows
    steps = np.arange(len(rows))[:, None]
    apart = (rows + steps) % count
    slower = (rows + steps // np.where(np.arange(rows.shape[1]) % 2, 2, 1)) % count
    holds_one = (slower == slower[:, :1]).all(axis=1).any()
    return np.asarray(apart if rows.shape[1] < _COLUMNS or holds_one else slower)


def _unlike(rows: Array) -> Array:
    """The table with rows that do not all hold the same integers, each as often: a sum over each would tell none apart."""
    columns = rows.shape[1]
    ordered = np.sort(rows, axis=1)
    if len(rows) < 2 or columns < _COLUMNS or (ordered != ordered[0]).any():
        return rows
    unlike = rows.copy()
    for i in range(1, len(rows)):
        unlike[i, -1] = unlike[i, (i - 1) % (columns - 1)]
    return unlike


def raised(integers: Fixed, most: int) -> Fixed:
    """The integers with every other one raised by one, but not above the most: where they were bounds, some are no longer met."""
    values = np.asarray(integers.value)
    steps = (np.arange(values.size) % 2).reshape(values.shape)
    return replace(integers, value=np.minimum(values + steps, most).astype(np.int32))


def splits(shape: tuple[int, ...], total: int, source: str) -> Fixed:
    """Where rows begin and the last one ends, of so many items in all: the second row is empty, the last the longest."""
    rows = max(shape[0] - 1, 1)
    filled = [row for row in range(rows) if row != 1 or rows < 3]
    lengths = np.zeros(rows, int)
    for item in range(total):
        lengths[filled[min(item, len(filled) - 1)]] += 1
    values = np.concatenate([[0], np.cumsum(lengths)])[: shape[0]]
    return Fixed(values.astype(np.int32), f"i32[{shape[0]}]", source)


def row(shape: tuple[int, ...], least: int, source: str) -> Fixed:
    """A tuple of whole numbers, each of its own but the last: 2, 1, 3, 2."""
    each = [2, 1, 3, *range(4, shape[0])][: shape[0]]
    values = tuple(least + n for n in [*each[: shape[0] - 1], 2])
    return Fixed(values, repr(values), source)


def tuples(shape: tuple[int, ...], count: int, axis: int, source: str, least: int = 0) -> Fixed:
    """So many integers from the least on that differ along one axis: pairs and triples that share some of their members."""
    members = shape[axis]
    others = int(np.prod(shape, dtype=int)) // members
    first = np.arange(others) ** 2 % count
    values = least + (first[:, None] + np.arange(members)) % count
    rest = tuple(n for a, n in enumerate(shape) if a != axis)
    whole = np.moveaxis(values.reshape(*rest, members), -1, axis)
    return Fixed(whole.astype(np.int32), f"i32{list(shape)}", source)


def floats(path: str, shape: tuple[int, ...], source: str, domain: Domain | None = None) -> Fixed:
    """Floats that stay as they are, of the ordinary size; the same for the same path and shape."""
    size = int(np.prod(shape, dtype=int))
    numbers = np.random.default_rng([size, *path.encode()]).standard_normal(shape)
    rows = numbers[None] if domain is None else domain.into(numbers[None], format_of("float32"))
    return Fixed(rows[0].astype(np.float32), f"f32{list(shape)}", source, path=path)


_FEW = 3  # marks of a row, of which none is taken


def mask(shape: tuple[int, ...], source: str, turn: int = 0) -> Fixed:
    """Booleans of both kinds along every axis of three and more; few rows count as many as the one before, and none is as that.

    The first turns by three, as tables do. Others turn by five, and are none of those before, where the axes are long
    enough: what is masked there hangs on neither of these. What is one is kept.
    """
    places = np.indices(shape)
    weights = [1 + (len(shape) - 1 - axis) % 2 for axis in range(len(shape))]  # 1 along the last
    total = sum((w * p for w, p in zip(weights, places, strict=True)), np.zeros(shape, int))
    found = [_unequal(np.asarray(total % 3 != 1))]
    for n in range(1, turn + 1):
        later = np.asarray((2 * total + 2 * n + 1) % _PERIOD < 3)
        shifts = range(min(_PERIOD, shape[-1])) if shape else ()
        rolls = [_unequal(np.roll(later, k, axis=-1)) for k in shifts]
        found.append(_unlike_all([*(m for m in rolls if m.any()), found[0]], found))
    return Fixed(found[-1], f"bool{list(shape)}", source)


def _unequal(marks: Array) -> Array:
    """Where two rows that follow each other count as many, one mark less in the second, or one more where it has but two.

    An average in each row is then none over all. No column becomes all of a kind, and no row is left with one.
    """
    rows = marks.reshape(-1, marks.shape[-1]) if marks.size and marks.ndim > 1 else marks[None][:0]
    for before, row in itertools.pairwise(rows):
        few = row.sum() < _FEW
        if row.sum() != before.sum() or row.sum() < _FEW - 1:
            continue
        for place in np.flatnonzero(row != few).tolist():
            row[place] = few
            if _is_mixed(marks):
                break
            row[place] = not few
    return marks


def _is_mixed(marks: Array) -> bool:
    """Are there marks along each axis, and none that is all of them but along the last?"""
    long = [axis for axis, size in enumerate(marks.shape) if size > 2]
    last = marks.ndim - 1
    return all(
        marks.any(axis).all() and (axis == last or not marks.all(axis).any()) for axis in long
    )

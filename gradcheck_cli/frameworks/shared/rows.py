"""The numbers of single calls, and what becomes of them as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.contract.limits import ROW_ALONE
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Array, Floats

SEEN_ALONE = 3  # rows of a batch that are run alone, to see that they do not know of each other


@dataclass(frozen=True, slots=True)
class Row:
    """Numbers of one call (or of many, as one array)."""

    value: list[Array]
    rule_value: list[Array]
    custom: list[Array] | None
    auto: list[Array] | None

    def __iter__(self) -> Iterator[list[Array] | None]:
        yield from (self.value, self.rule_value, self.custom, self.auto)


def stacked(rows: Sequence[Row | None], nothing: Row, raised: str = "") -> Floats:
    """One array for each output and argument; rows at which it raised are NaN, and named.

    `nothing` stands for a single point at which it raised; where it raises at all of many, it is refused,
    with what it `raised` last.
    """
    first = next((row for row in rows if row is not None), nothing if len(rows) == 1 else None)
    if first is None:
        raise Rejected(f"it raises at every point that was tried{raised and ': '}{raised}")
    nothing = Row(*([np.full_like(a, np.nan) for a in part or ()] for part in first))
    each = [list(row or nothing) for row in rows]
    value, rule_value, custom, auto = (
        [np.stack(column) for column in zip(*parts, strict=True)]
        for parts in zip(*([p or [] for p in row] for row in each), strict=True)
    )
    refused = np.array([row is None for row in rows], bool)
    return Floats(
        value, rule_value, None if first.custom is None else custom,
        None if first.auto is None else auto, refused if refused.any() else None,
    )  # fmt: skip


def rows_to_see_alone(arrays: Sequence[Array]) -> list[int]:
    """A few rows of a batch with such results, and the first at which one of these is no number."""
    count = len(arrays[0])
    missing = np.isnan(np.column_stack([a.reshape(count, -1) for a in arrays])).any(axis=1)
    few = np.linspace(0, count - 1, SEEN_ALONE).astype(int).tolist()
    return sorted({*few, int(missing.argmax())})


def same_as_alone(whole: Row, alone: Row, i: int) -> bool:
    """Is row i of the batch that row alone, up to last digits that vectorised loops round otherwise?

    It decides how the batch is run, never what is right.
    """
    for many, one in zip(whole, alone, strict=True):
        for a, b in zip(many or (), one or (), strict=True):
            size = np.nan_to_num(np.abs(b).astype(np.float64), nan=0.0, posinf=np.inf)
            tiny = 2.0**-120 * (1 + size)
            if not np.allclose(a[i], b, rtol=ROW_ALONE.value, atol=tiny, equal_nan=True):
                return False
    return True


def row_by_row(
    one: Callable[..., list[Array]], points: Sequence[Array], cotangents: Sequence[Array]
) -> list[Array]:
    """What `one` gives for each probe alone, as one batch."""
    rows = [one([p[i] for p in points], [c[i] for c in cotangents]) for i in range(len(points[0]))]
    return [np.stack(column) for column in zip(*rows, strict=True)]

"""How long the pieces are that a text takes of an axis."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.clues.pieces import pieces

WIDE = 128


class Config:
    rows = 24


def by_range(x: Any) -> Any:
    return [x[i : i + 32] for i in range(0, len(x), 32)]


def by_a_name(x: Any) -> Any:
    return x.split(WIDE)


def by_a_default(x: Any, size: int = 20) -> Any:
    return x.split(size)


def by_an_own_name(torch: Any, x: Any) -> Any:
    size = 12
    return torch.split(x, size)


def by_an_attribute(x: Any, i: int) -> Any:
    return x[i : i + Config.rows]


def by_blocks(pl: Any, x: Any) -> Any:
    return pl.cdiv(x.shape[0], WIDE)


def by_what_is_launched(triton: Any, x: Any) -> Any:
    return triton.cdiv(x.shape[0], WIDE)


def by_a_helper(x: Any) -> Any:
    return by_a_name(x)


def by_counts(np: Any, x: Any) -> Any:
    return np.split(x, 8), x[i : 4 + i] if (i := 2) else x[2:]


def by_two(x: Any) -> Any:
    return x.split(2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (by_range, (32,)),
        (by_a_name, (128,)),
        (by_a_default, (20,)),
        (by_an_own_name, (12,)),
        (by_an_attribute, (24,)),
        (by_blocks, (128,)),
        (by_what_is_launched, ()),
        (by_a_helper, (128,)),
        (by_counts, ()),
        (by_two, ()),
        (len, ()),
    ],
)
def test_pieces(function: Any, expected: tuple[int, ...]) -> None:
    assert pieces([function]) == expected

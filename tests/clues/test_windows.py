"""Windows: which parameters they slide by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.clues.windows import windows
from tests.infer.fitted import parameters_of


def total(x, width, every=None):
    every = width if every is None else every
    count = (len(x) - width) // every + 1
    return np.stack([x[i * every : i * every + width].sum() for i in range(count)])


def by_unfold(x, a, b):
    return x.unfold(0, a, b).sum(-1)


def by_index(x, a, b):
    return x[np.arange(4)[:, None] * b + np.arange(a)[None, :]]


def by_keywords(x, a, b):
    return np.max_pool(x, pool_size=a, strides=b)


def by_name(x, frame_length, hop):
    return x


def by_pairs(x, kernel, stride):
    for i in range(kernel[0]):
        x = x[slice(i, None, stride[0])]
    return x


def chunks(x, chunk):
    return [x[i : i + chunk] for i in range(0, len(x), chunk)]


@pytest.mark.parametrize(
    ("function", "pairs"),
    [
        (total, [("width", "every")]),
        (by_unfold, [("a", "b")]),
        (by_index, [("a", "b")]),
        (by_keywords, [("a", "b")]),
        (by_name, [("frame_length", "hop")]),
        (by_pairs, [("kernel", "stride")]),
        (chunks, []),
    ],
)
def test_what_slides_is_read_or_named(function: Any, pairs: list[tuple[str, str]]) -> None:
    assert windows([function], [p.name for p in parameters_of(function)]) == pairs

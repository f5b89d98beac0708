"""A signature again with one of its sizes doubled."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.infer.larger import larger
from gradcheck_cli.inputs.signature import Fixed, Hints, Leaf, Signature

NOTHING = Hints({}, {}, [])


def test_all_axes_of_one_size_are_doubled_together() -> None:
    signature = Signature((("x", Leaf("x", (2, 4), "")), ("scale", Leaf("scale", (4,), ""))))
    shapes = [[leaf.shape for leaf in s.leaves] for s in larger(signature, NOTHING)]
    assert shapes == [[(2, 8), (8,)], [(4, 4), (4,)]]


def test_a_table_grows_with_its_rows_and_keeps_its_range() -> None:
    ids = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "")
    signature = Signature((("x", Leaf("x", (3, 5), "")), ("ids", ids)))
    rows = next(s for s in larger(signature, NOTHING) if s.leaves[0].shape == (6, 5))
    table = dict(rows.arguments)["ids"].value
    assert table.shape == (6,)
    assert table.max() == 2


def test_what_grows_too_large_is_left_out() -> None:
    signature = Signature((("x", Leaf("x", (300,), "")),))
    assert list(larger(signature, NOTHING)) == []

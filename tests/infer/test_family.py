"""The family that is judged: small signatures beside the richest one, where they show as much."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.infer.family import family
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from tests.infer.fitted import NO_HINTS, Gradient, shapes


def judged(gradient: Gradient, **arguments: Leaf | Fixed) -> list[dict[str, tuple[int, ...]]]:
    small = [gradient.fit(Signature(tuple(arguments.items())), "float32")]
    found = family(gradient, gradient.parameters(), "float32", NO_HINTS, small)
    return [shapes(subject) for subject in found.subjects]


def test_where_no_program_is_known_vectors_alone_stand_for_all() -> None:
    assert judged(Gradient(lambda x: x * x), x=Leaf("x", (3,), "test")) == [{"x": (3,)}]


def test_what_reads_a_table_is_judged_by_its_richest_shapes_too() -> None:
    ids = Fixed(np.array([2, 0, 2], np.int32), "i32[3]", "test")
    table = Gradient(lambda weight, ids: weight[ids])
    found = judged(table, weight=Leaf("weight", (3,), "test"), ids=ids)
    assert max(len(each["weight"]) for each in found) > 1

"""A complex argument: one array to the function, two to whoever judges it."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.infer.comment_of import comments_of
from gradcheck_cli.infer.narrower import narrower
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.signature import Leaf, Signature, filled, root
from gradcheck_cli.project.input_specs import parse

FIELD = Leaf("field", (3, 4), "test", is_complex=True)
CALL = Signature((("field", FIELD), ("x", Leaf("x", (2,), "test"))))


def test_it_is_judged_by_its_two_parts() -> None:
    assert [(leaf.path, leaf.shape) for leaf in CALL.leaves] == [
        ("field.real", (3, 4)),
        ("field.imag", (3, 4)),
        ("x", (2,)),
    ]
    assert CALL.whole_leaves == (FIELD, CALL.leaves[2])
    assert CALL.describe() == "field: complex[3 4], x: float[2]"


def test_its_numbers_at_a_call_are_parted() -> None:
    numbers = np.array([1 + 2j, 3 - 4j])
    real, imag = Leaf("z", (2,), "test", recorded=numbers, is_complex=True).parts
    assert (real.recorded.tolist(), imag.recorded.tolist()) == ([1, 3], [2, -4])


def test_the_function_gets_the_two_parts_as_one() -> None:
    supply = iter([1.0, 2.0, 3.0])
    assert [filled(value, supply) for _, value in CALL.arguments] == [1 + 2j, 3.0]


def test_a_comment_says_so_and_is_read_as_such() -> None:
    comment = next(comments_of(CALL))
    assert comment == "field=c64[b d], x=f32[n]"
    assert specified("field", parse(comment)["field"], "a comment").is_complex


def test_it_is_narrowed_as_one() -> None:
    shapes = [[leaf.shape for leaf in call.leaves[:2]] for call in narrower(CALL, ["field"])]
    assert shapes == [[(3, 1)] * 2, [(1, 4)] * 2, [(4,)] * 2]


def test_a_path_begins_with_its_parameter() -> None:
    assert [root(path) for path in ("x", "p['w'].real", "p.w", "p[0]")] == ["x", "p", "p", "p"]

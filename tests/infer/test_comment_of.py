"""A signature as a comment: what it asks for is the signature again, in sizes of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.infer.comment_of import comments_of
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Signature
from gradcheck_cli.inputs.stand_ins import mask, table
from gradcheck_cli.project.input_specs import Bounds, parse
from tests.infer.fitted import NO_HINTS, Gradient


def comment(**arguments: Any) -> str:
    return next(comments_of(Signature(tuple(arguments.items()))), "")


def leaf(path: str, *shape: int, **fields: Any) -> Leaf:
    return Leaf(path, shape, "test", **fields)


def test_solved_axes_by_their_names_then_by_their_sizes() -> None:
    x, w = leaf("x", 4, 3, axes=("b", "d")), leaf("w", 3, axes=("d",))
    texts = list(comments_of(Signature((("x", x), ("w", w)))))
    assert texts == ["x=f32[b d], w=f32[d]", "x=f32[4 3], w=f32[3]"]


def test_axes_that_nothing_solved_have_a_name_for_each_size() -> None:
    assert comment(x=leaf("x", 3, 4), w=leaf("w", 4)) == "x=f32[b d], w=f32[d]"
    assert comment(x=leaf("x", 3), y=leaf("y", 3)) == "x=f32[n], y=f32[n]"
    assert comment(x=leaf("x")) == "x=f32[]"


def test_domains_tables_masks_and_trees() -> None:
    positive = Domain(Bounds(low=0.0, low_open=True, text="> 0"))
    text = comment(
        p=leaf("p", 5, domain=positive), ids=table((4,), 3, "test"), keep=mask((5,), "test"),
        params={"w": leaf("params['w']", 5), "n": Fixed(2, "2", "test")},
        pair=(leaf("pair[0]", 4), leaf("pair[1]")),
    )  # fmt: skip
    assert text == (
        "p=f32[b] > 0, ids=i32[d] in 0..3, keep=bool[b], params={w: f32[b], n: 2}, "
        "pair=(f32[d], f32[])"
    )


def test_what_still_moves_or_cannot_be_said_is_left_out() -> None:
    text = comment(
        x=leaf("x", 4), axis=Fixed(-1, "-1", "test"), eps=OMITTED, f=Fixed(np.add, "add", "test"),
        scale=leaf("scale", centre=1.0), rising=table((4,), 3, "test", ascending=True),
        state=Built("State", list, (leaf("state.a", 4),), ("a",)), key=[leaf("key", 4), Fixed(np.add, "", "")],
    )  # fmt: skip
    assert text == "x=f32[n]"
    assert comment(axis=Fixed(-1, "-1", "test")) == ""


def dense(x, w, b):
    return x @ w + b


def normed(x, scale):
    return x / np.sqrt((x * x).mean(-1, keepdims=True)) * scale


def pattern(subject: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The shapes, each size by the place where it is met first."""
    sizes = list(dict.fromkeys(n for leaf in subject.leaves for n in leaf.shape))
    return [(leaf.path, tuple(map(sizes.index, leaf.shape))) for leaf in subject.leaves]


@pytest.mark.parametrize("function", [dense, normed, lambda x, y: x * y, lambda a: np.trace(a) * 2])
def test_the_comment_gives_the_shapes_that_were_found_without_it(function: Any) -> None:
    gradient = Gradient(function)
    found = max(
        probe(gradient, "float32", NO_HINTS).subjects,
        key=lambda s: sum(len(leaf.shape) for leaf in s.leaves),
    )
    text = next(comments_of(found.signature))
    hints = replace(NO_HINTS, specs=parse(text), spec_source="the comment")
    (again,) = probe(gradient, "float32", hints).subjects
    assert pattern(again) == pattern(found)
    assert {leaf.source for leaf in again.leaves} == {"the comment"}


def test_a_table_is_made_again_below_its_count() -> None:
    ids = specified("ids", parse("ids=i32[4] in 0..3")["ids"], "test")
    assert comment(ids=ids, x=leaf("x", 4)) == "ids=i32[n] in 0..3, x=f32[n]"

"""Signatures with less in them."""

from __future__ import annotations

from gradcheck_cli.infer.narrower import narrower
from gradcheck_cli.inputs.signature import Leaf, Signature


def shapes(signature: Signature) -> dict[str, tuple[int, ...]]:
    return {leaf.path: leaf.shape for leaf in signature.leaves}


def test_each_axis_in_turn_is_one_then_the_first_is_gone() -> None:
    signature = Signature((("x", Leaf("x", (4, 3), "test")), ("w", Leaf("w", (3,), "test"))))
    assert [shapes(s)["x"] for s in narrower(signature, {"x"})] == [(4, 1), (1, 3), (3,)]
    assert all(shapes(s)["w"] == (3,) for s in narrower(signature, {"x"}))


def test_an_array_within_a_tree_goes_by_its_last_name() -> None:
    params = {"mean": Leaf("p['mean']", (4, 3), "test"), "scale": Leaf("p['scale']", (4, 3), "test")}  # fmt: skip
    first = next(narrower(Signature((("p", params),)), {"scale", "shape"}), None)
    assert first is not None
    assert set(shapes(first)) == {"p['mean']"}  # an item that is named may be left out
    others = list(narrower(Signature((("p", params),)), {"scale"}))[1:]
    assert [shapes(s)["p['scale']"] for s in others] == [(4, 1), (1, 3), (3,)]


def test_nothing_is_left_out_that_nobody_names() -> None:
    signature = Signature((("x", Leaf("x", (4,), "test")),))
    assert list(narrower(signature, {"shape"})) == []


def test_arrays_that_share_an_axis_by_its_name_are_narrowed_with_it_first() -> None:
    signature = Signature(
        (
            ("x", Leaf("x", (4, 3), "test", axes=("n", "t"))),
            ("times", Leaf("times", (3,), "test", axes=("t",))),
        )
    )
    first, second, *_ = map(shapes, narrower(signature, {"x"}))
    assert first == {"x": (4, 1), "times": (1,)}
    assert second == {"x": (4, 1), "times": (3,)}

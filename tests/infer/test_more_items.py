"""Lists of arrays that are made longer."""

from __future__ import annotations

from gradcheck_cli.infer.more_items import with_more_items
from gradcheck_cli.inputs.signature import Leaf, Signature

X = Leaf("x", (2, 3), "test")


def matrix(number: int, *shape: int) -> Leaf:
    return Leaf(f"mats[{number}]", shape, "test")


def longer(*items: Leaf) -> list[list[tuple[str, tuple[int, ...]]]]:
    signature = Signature((("mats", list(items)), ("x", X)))
    return [
        [(leaf.path, leaf.shape) for leaf in other.leaves if leaf.path != "x"]
        for other in with_more_items(signature)
    ]


def test_a_single_matrix_is_three_of_it_or_there_and_back_and_there() -> None:
    alike, turned = longer(matrix(0, 4, 3))
    assert alike == [("mats[0]", (4, 3)), ("mats[1]", (4, 3)), ("mats[2]", (4, 3))]
    assert turned == [("mats[0]", (4, 3)), ("mats[1]", (3, 4)), ("mats[2]", (4, 3))]


def test_several_come_in_turn() -> None:
    (found,) = longer(matrix(0, 4, 3), matrix(1, 3, 4))
    assert [shape for _, shape in found] == [(4, 3), (3, 4)] * 3


def test_numbers_and_single_arrays_stay_as_they_are() -> None:
    assert longer(Leaf("mats[0]", (), "test")) == []
    assert list(with_more_items(Signature((("x", X),)))) == []

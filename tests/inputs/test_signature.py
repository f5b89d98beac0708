"""What a signature says of itself."""

from __future__ import annotations

from gradcheck_cli.inputs.signature import Leaf, Signature, last_name


def test_an_array_without_elements_makes_it_empty() -> None:
    x, y = Leaf("x", (3, 2), "test"), Leaf("y", (1, 0), "test")
    assert Signature((("x", x), ("y", y))).is_empty
    assert not Signature((("x", x),)).is_empty


def test_the_last_name_of_a_path() -> None:
    assert [last_name(p) for p in ("x", "params['w']", "params.layers.w")] == ["x", "w", "w"]

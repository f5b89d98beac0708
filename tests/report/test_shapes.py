"""Inputs in words: the line of a verdict names the richest shapes, and the plain values that differ."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.contract.report import Input
from gradcheck_cli.report.shapes import in_words, shapes


def array(path: str, *shape: int, signature: int = 1, **changes: Any) -> Input:
    plain = {"dtype": "float32", "domain": "", "source": "a comment"} | changes
    return Input(path=path, shape=list(shape), signature=signature, **plain)


def plain(path: str, text: str, signature: int = 1, shape: tuple[int, ...] = ()) -> Input:
    return array(path, *shape, signature=signature, dtype="fixed", domain=text)


def test_the_signature_with_most_axes_is_named() -> None:
    inputs = [array("x"), array("x", 5, 3, signature=2), array("w", 3, signature=2), array("x", 7, signature=3)]  # fmt: skip
    assert shapes(inputs, 80) == "at x[5 3], w[3]"


def test_plain_values_are_named_where_they_differ() -> None:
    inputs = [
        item
        for n, axis in enumerate(("-1", "0", "1"), start=1)
        for item in (array("x", 4, 3, signature=n), plain("axis", axis, n), plain("eps", "1e-05", n))
    ]  # fmt: skip
    assert shapes(inputs, 80) == "at x[4 3], axis=-1|0|1"


def test_tables_of_integers_are_arrays_and_many_or_long_values_are_cut() -> None:
    inputs = [
        item
        for n in range(1, 7)
        for item in (array("x", 4, signature=n), plain("k", str(n), n), plain("ids", "i32[4]", n, (4,)))
    ]  # fmt: skip
    assert shapes(inputs, 80) == "at x[4], ids[4], k=1|2|3|4|…"
    long = [array("x"), plain("mode", "'no'"), array("x", signature=2), plain("mode", f"'{'y' * 99}'", 2)]  # fmt: skip
    assert shapes(long, 80) == "at x[], mode='no'|'yyyyyyyyyyyyyy…"


def test_an_array_in_the_place_of_none_is_named_by_its_shape() -> None:
    inputs = [array("x", 3), array("b", 3), plain("b", "None", 2), array("x", 3, signature=2)]
    assert shapes(inputs, 80) == "at x[3], b[3]"


@pytest.mark.parametrize(
    ("width", "text"),
    [(80, "at first[3], second[3], third[3]"), (30, "at first[3] and 2 more"), (10, "")],
)
def test_what_does_not_fit_is_counted(width: int, text: str) -> None:
    inputs = [array(name, 3) for name in ("first", "second", "third")]
    assert shapes(inputs, width) == text


def test_nothing_was_judged() -> None:
    assert shapes([], 80) == ""


def test_an_input_stands_with_its_domain_and_its_source() -> None:
    assert in_words(array("x", 3, domain="> 0")) == "x: float32[3] > 0 — a comment"
    assert in_words(array("x", domain="[-1, 1]")) == "x: float32[] in [-1, 1] — a comment"
    assert in_words(plain("axis", "-1")) == "axis: -1 — a comment"

"""Sizes of named dimensions."""

from __future__ import annotations

import pytest

from gradcheck_cli.project.dimensions import DimensionError, size_of, sizes_of


def sizes(text: str) -> list[int]:
    tokens = text.split()
    chosen = sizes_of(tokens)
    return [size_of(token, chosen) for token in tokens]


def test_names_differ_from_each_other_and_from_the_numbers_beside_them() -> None:
    assert sizes("n m n 4") == [3, 5, 3, 4]
    many = sizes(" ".join(f"d{i}" for i in range(12)))
    assert len(set(many)) == 12
    assert min(many) > 1


def test_a_kernel_is_shorter_than_its_signal_wherever_it_is_met() -> None:
    assert sizes("n k") == [4, 3]
    n, c, h, w, o, _, kh, kw = sizes("N C H W O C kh kw")
    assert max(kh, kw) < min(h, w)
    assert c == 2
    assert len({n, c, h, w, o, kh, kw}) == 7


def test_arithmetic_leaves_no_rest_and_no_empty_axis() -> None:
    d, half, twice = sizes("d d//2 2*d")
    assert (half * 2, twice) == (d, 2 * d)
    n, less = sizes("n n-2")
    assert (n - less, less >= 2) == (2, True)
    assert sizes("h w h*w") == [3, 4, 12]


@pytest.mark.parametrize("token", ["-n", "n-", "f(n)", "n/2", "1.5", "True", "..."])
def test_what_is_no_dimension(token: str) -> None:
    with pytest.raises(DimensionError, match="is no dimension"):
        size_of(token, {"n": 3})


def test_a_dimension_cannot_be_negative_or_divided_by_zero() -> None:
    for token in ("2-5", "5//0"):
        with pytest.raises(DimensionError):
            size_of(token, {})


def test_a_power_is_as_large_as_it_is_up_to_a_limit() -> None:
    sizes = sizes_of(["n", "2**n"])
    assert size_of("2**n", sizes) == 2 ** sizes["n"]
    for token in ("2**n", "2**(5-n)", "0**(5-n)"):
        with pytest.raises(DimensionError, match=r"\*\*"):
            size_of(token, {"n": 63})
    assert size_of("1**n", {"n": 63}) == 1

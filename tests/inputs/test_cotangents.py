"""What a probe is multiplied with."""

from __future__ import annotations

import ml_dtypes

from gradcheck_cli.inputs.cotangents import BASE, SUM, cotangent


def test_no_line_of_five_or_ten_is_like_another() -> None:
    (base,) = cotangent(BASE, [(6, 10)])
    assert len({tuple(line) for line in base}) == 6
    assert len({tuple(line) for line in base.reshape(12, 5)}) == 12


def test_sums_of_weights_are_exact_in_short_formats() -> None:
    (sums,) = cotangent(SUM, [(6, 10)])
    assert (sums == sums.astype(ml_dtypes.bfloat16).astype(float)).all()

"""How many leading bits of a float are right."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.correct_bits import correct_bits


@pytest.mark.parametrize(
    ("got", "truth", "bits"),
    [
        (1.0, 1.0, 24),
        (0.0, 0.0, 24),
        (np.inf, np.inf, 24),
        (1.5, 1.0, 1),
        (1 + 2.0**-10, 1.0, 10),
        (1 + 2.0**-40, 1.0, 24),  # no more than the format has
        (2.0, 1.0, 0),
        (100.0, 1.0, 0),  # and no fewer than none
        (0.0, 1.0, 0),
        (1.0, 0.0, 0),
        (np.inf, 1.0, 0),
        (np.nan, 1.0, 0),
        (np.nan, np.nan, 0),
        (1.0, np.nan, 24),  # there is nothing to be wrong about
    ],
)
def test_correct_bits_of_a_float32(got: float, truth: float, bits: float) -> None:
    of = correct_bits(np.array([got]), np.array([truth]), format_of("float32"))
    assert of.tolist() == [bits]


def test_floats_of_a_narrow_format_are_compared_as_what_they_are() -> None:
    floats = np.array([0.1, 1.0], np.float16)
    bits = correct_bits(floats, np.array([0.1, 1.0]), format_of("float16"))
    assert bits.tolist() == [11, 11]

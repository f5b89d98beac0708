"""A derived fact is computed once for each measurements, and for each of its arguments."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements
from tests.support import measured


def test_a_fact_is_computed_once() -> None:
    calls = []

    @derived
    def fact(m: Measurements, power: int) -> float:
        calls.append(power)
        return float(m.points[0].max() ** power)

    one, other = (measured([x], np.square, lambda x, weight: 2 * x * weight) for x in (2.0, 3.0))
    assert [fact(one, 2), fact(one, 2), fact(one, 3), fact(other, 2)] == [4.0, 4.0, 8.0, 9.0]
    assert calls == [2, 3, 2]

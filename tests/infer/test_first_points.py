"""Points before all others: asked for, and recorded."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.infer.first_points import asked_first, recorded_first
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Leaf

F32 = format_of("float32")
LEAVES = (Leaf("x", (2,), "test"), Leaf("y", (), "test"))
POINTS = Points([np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])], ["plain", "next"])


def asked(**numbers: list[float]) -> Points:
    return asked_first([AskedPoint(numbers)], LEAVES, F32, POINTS)


def test_the_asked_point_comes_first_and_other_arguments_stay_plain() -> None:
    points = asked(x=[7.0, 0.1])
    assert points.recipes == ["asked for", "plain", "next"]
    assert points.leaves[0][0].tolist() == [7.0, float(np.float32(0.1))]
    assert points.leaves[1].tolist() == [5.0, 5.0, 6.0]


def test_one_number_fills_an_array() -> None:
    assert asked(x=[9.0]).leaves[0][0].tolist() == [9.0, 9.0]


@pytest.mark.parametrize("numbers", [{"z": [1.0]}, {"x": [1.0, 2.0, 3.0]}])
def test_a_signature_without_the_name_or_with_another_size_is_not_asked(
    numbers: dict[str, list[float]],
) -> None:
    assert asked(**numbers) is POINTS


def test_recorded_numbers_come_first() -> None:
    leaves = (Leaf("x", (2,), "test", recorded=np.array([8.0, 9.0])), LEAVES[1])
    points = recorded_first(leaves, F32, POINTS)
    assert points.recipes == ["recorded", "plain", "next"]
    assert points.leaves[0][0].tolist() == [8.0, 9.0]
    assert points.leaves[1][0] == 5.0
    assert recorded_first(LEAVES, F32, POINTS) is POINTS

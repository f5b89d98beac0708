"""How far a formula's gap lies from poles and kinks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.judge.laws.singularity import radius_around_singularities


def test_of_a_gradient_that_is_judged_in_part_the_judged_elements_count() -> None:
    """Two of three elements of `x` are judged; the second has a kink at 0, beside which the formula differs."""
    points = np.array([[5.0, 1.0, 0.0], [7.0, 2.0, 1e-9]])
    m: Any = SimpleNamespace(
        subject=SimpleNamespace(leaves=[Leaf("x", (3,), "test")]),
        components=lambda what: [((3,), np.array([1, 2]))],
        points=[points],
        count=2,
    )
    facts: Any = SimpleNamespace(
        singular=np.array([True, False]),
        singular_at=np.array([[False, True], [False, False]]),
        differs=np.array([[False, False], [False, True]]),
    )
    assert radius_around_singularities(m, facts, np.array([1])) == 1e-9

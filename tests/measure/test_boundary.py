"""Where a finding holds: every interval, to the float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.measure.boundary import find_boundaries
from tests.conftest import check_json
from tests.support import measured


def test_the_edges_are_floats_next_to_each_other() -> None:
    m = measured([1.0, 10.0], np.square, lambda x, weight: 2 * x * weight)
    grid = np.array([-100.0, -10.0, 0.0, 1.0, 5.0, 60.0])

    def holds(other):
        x = other.points[0]
        return (np.abs(x) > 3) & (x < 50)

    below, around = find_boundaries(m, 1, 0, 0, grid, holds)
    assert (below.start, below.start_open) == (-100.0, True), "as far as anyone looked"
    assert below.stop == np.nextafter(np.float32(-3), np.float32(-4))
    assert around.start == np.nextafter(np.float32(3), np.float32(4))
    assert (around.stop, around.stop_open) == (np.nextafter(np.float32(50), np.float32(0)), False)


def test_nothing_is_bounded_that_does_not_hold() -> None:
    m = measured([1.0], np.square, lambda x, weight: 2 * x * weight)
    assert find_boundaries(m, 0, 0, 0, np.array([0.0]), lambda m: np.zeros(m.count, bool)) == []


RULE = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(
    lambda x: (square(x), x),
    lambda x, g: (jnp.where((jnp.abs(x) > 3) & (jnp.abs(x) < 50), g * x, 2 * g * x),),
)
"""


@pytest.mark.slow
def test_two_intervals_are_both_told_with_their_ends(tmp_path: Path) -> None:
    (tmp_path / "rules_square.py").write_text(RULE)
    (finding,) = check_json("rules_square.py", cwd=tmp_path).report["findings"]
    ends = [(b["from"], b["to"]) for b in finding["boundary"]]
    assert ends == [(-49.999996, -3.0000002), (3.0000002, 49.999996)]
    assert "for -49.999996 ≤ x ≤ -3.0000002 and for 3.0000002 ≤ x" in finding["message"]

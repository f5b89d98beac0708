"""Where a finding holds: every interval, to the float."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_json

pytestmark = pytest.mark.slow  # each starts cgcheck in a process of its own

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


def test_two_intervals_are_both_told_with_their_ends(tmp_path: Path) -> None:
    (tmp_path / "rules_square.py").write_text(RULE)
    (finding,) = check_json("rules_square.py", cwd=tmp_path).report["findings"]
    ends = [(b["from"], b["to"]) for b in finding["boundary"]]
    assert ends == [(-49.999996, -3.0000002), (3.0000002, 49.999996)]
    assert "for -49.999996 ≤ x ≤ -3.0000002 and for 3.0000002 ≤ x" in finding["message"]

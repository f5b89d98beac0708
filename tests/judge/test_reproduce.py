"""The command that shows a finding again, at its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.judge.reproduce import checking, reproducing
from gradcheck_cli.measure.measurements import Measurements
from tests.traced import failure, traced

SITE = Site("model.py", 3, 5, 9, "loss", "model.py")
WRONG = failure(RuleName.GRADIENT_MISMATCH, row=1)


def of(*columns: Any, dtype: str = "float32") -> Measurements:
    def total(*leaves: Any) -> Any:
        return sum(leaf.sum() for leaf in leaves)

    return traced(total, *columns, dtype=dtype, cotangents=["base"])


def test_a_number_is_written_as_it_is_read() -> None:
    m = of([1.0, 0.1], [2.0, -1e9])
    assert reproducing(WRONG, m, SITE) == 'cgcheck model.py:loss --at "x=0.1, y=-1e9"'


def test_arrays_are_written_flat() -> None:
    m = of(np.array([[[0.0] * 2] * 2, [[1.0, 2.0], [3.0, 4.5]]]))
    assert reproducing(WRONG, m, SITE) == 'cgcheck model.py:loss --at "x=[1, 2, 3, 4.5]"'


def test_very_many_numbers_are_left_out() -> None:
    assert reproducing(WRONG, of(np.ones((2, 9))), SITE) == "cgcheck model.py:loss"


def test_another_dtype_is_named() -> None:
    m = of([1.0, 0.1], dtype="bfloat16")
    command = 'cgcheck model.py:loss --at "x=0.1001" --dtype bfloat16'
    assert reproducing(WRONG, m, SITE) == command


@pytest.mark.parametrize(
    ("qualname", "target", "command"),
    [
        ("loss", "model.py", "cgcheck model.py:loss"),
        ("Layer.loss", "package.model", "cgcheck package.model:Layer.loss"),
        ("make.<locals>.loss", "model.py", "cgcheck model.py:make.loss"),
        ("<lambda>", "model.py", "cgcheck model.py"),
        ("loss", "my model.py", "cgcheck 'my model.py:loss'"),
    ],
)
def test_the_gradient_is_named_as_on_the_command_line(
    qualname: str, target: str, command: str
) -> None:
    assert checking(Site("", 1, 1, 2, qualname, target)) == command

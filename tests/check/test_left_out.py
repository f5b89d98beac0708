"""What was measured otherwise than it was asked is said, and only that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.check.left_out import left_out
from gradcheck_cli.subject.results import Kernel
from tests.support import measured


def said(**subject: Any) -> list[str]:
    m = measured([1.0, 2.0], np.square, lambda x, weight: 2 * x * weight, **subject)
    return [what for what, _ in left_out(m)]


def test_kernels_are_interpreted() -> None:
    assert said() == []
    assert said(kernels=(Kernel(()),)) == ["its floats on a GPU or TPU"]


@pytest.mark.parametrize(("device", "what"), [("cpu", []), ("gpu", ["its floats on the GPU"])])
def test_floats_that_stay_on_the_cpu_are_told_where_a_gpu_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, device: str, what: list[str]
) -> None:
    monkeypatch.setenv("CGCHECK_DEVICE", device)
    assert said(stays_on_cpu="it draws") == what
    assert said() == []

"""Subjects of several blocks of a kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.check.several_blocks import _is_cut_whatever_its_axes
from gradcheck_cli.subject.results import Cut, Kernel


@pytest.mark.parametrize(
    ("kernels", "steps", "is_cut"),
    [
        ([Kernel((), programs=7), Kernel((), programs=7)], 300, True),
        ([Kernel((), programs=7), Kernel((), programs=7)], 3000, False),  # each would take long
        ([Kernel((), programs=7), Kernel((), programs=1)], 300, False),
        ([Kernel((Cut(33, 16),), programs=7)], 300, False),  # along an axis
        ([], 300, False),
    ],
)
def test_arrays_may_be_cut_as_they_lie_in_memory(
    kernels: list[Kernel], steps: int, is_cut: bool
) -> None:
    program = SimpleNamespace(steps=[None] * steps)
    traces = SimpleNamespace(primal=program, rule=None)
    subject: Any = SimpleNamespace(kernels=kernels, traces=lambda: traces)
    assert _is_cut_whatever_its_axes(subject) is is_cut

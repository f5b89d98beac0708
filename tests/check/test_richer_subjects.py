"""Subjects of several blocks of a kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.check.richer_subjects import _is_cut_whatever_its_axes
from gradcheck_cli.subject.results import Cut, Kernel


@pytest.mark.parametrize(
    ("kernels", "is_cut"),
    [
        ([Kernel((), programs=7), Kernel((), programs=7)], True),
        ([Kernel((), programs=7), Kernel((), programs=1)], False),
        ([Kernel((Cut(33, 16),), programs=7)], False),  # along an axis
        ([], False),
    ],
)
def test_arrays_may_be_cut_as_they_lie_in_memory(kernels: list[Kernel], is_cut: bool) -> None:
    subject: Any = SimpleNamespace(kernels=kernels)
    assert _is_cut_whatever_its_axes(subject) is is_cut

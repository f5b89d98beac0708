"""The bar of a sweep, on a terminal and off it."""

from __future__ import annotations

import io
import sys
import time

import pytest

from gradcheck_cli.cli import terminal
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.contract.sweep_map import Swept
from tests.cli.test_outputs import Terminal

PART = Swept(
    gradient="f", line=3, dtype="float32", arguments=["x"], results=["x"], part=0, parts=4,
    floats=2_000_000, evidence=Evidence.CERTIFIED, stretches=[], levels=[],
)  # fmt: skip


def drawn(err: io.StringIO, monkeypatch: pytest.MonkeyPatch, *done: int) -> list[str]:
    """What stands on the line one after the other, a second a part."""
    seconds = iter(range(100))
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    with terminal.bar() as tell:
        for number in done:
            tell(PART, number)
    return err.getvalue().split("\r\x1b[K")


def test_the_bar_grows_and_says_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second, after = drawn(Terminal(), monkeypatch, 1, 2)
    assert first == f"[{'█' * 6}{'·' * 18}]  25 %  2.0 M floats/s  00:03 left"
    assert second == f"[{'█' * 12}{'·' * 12}]  50 %  2.0 M floats/s  00:02 left"
    assert after == ""


def test_parts_of_an_earlier_run_count_as_done_and_not_for_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, only, _ = drawn(Terminal(), monkeypatch, 4)
    assert only == f"[{'█' * 24}] 100 %  2.0 M floats/s  00:00 left"


def test_there_is_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(io.StringIO(), monkeypatch, 1) == [""]

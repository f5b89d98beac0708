"""A bug of ours in one gradient costs that gradient alone, and the count tells it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.check.file import check_file
from gradcheck_cli.contract.report import Status
from gradcheck_cli.contract.worker import Checked, Event, FileFinding, Mark
from tests.check.fakes import TASK

MODEL = """import jax


@jax.custom_gradient
def square(x):
    return x * x, lambda ct: 2 * x * ct
"""


def test_a_gradient_on_which_we_fail_stays_in_the_count(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("gradcheck_cli.check.one_gradient.examine", broken)
    path = project / "a.py"
    path.write_text(MODEL)
    marked = {"jax": [Mark("square", 4, "jax", "custom_gradient")]}
    events: list[Event] = []
    check_file(replace(TASK, path=str(path), root=str(project), marked=marked), events.append)
    (finding,) = (event.finding for event in events if isinstance(event, FileFinding))
    assert finding.rule == "internal-error"
    (checked,) = (event for event in events if isinstance(event, Checked))
    assert (checked.gradient.name, checked.gradient.status) == ("square", Status.UNCHECKED)
    assert checked.gradient.reason == "cgcheck itself failed"
    assert [item.what for item in checked.not_covered] == ["the whole gradient"]


def test_what_was_told_before_stands_when_we_fail_at_its_correction(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("gradcheck_cli.check.gradient.corrected", broken)
    path = project / "a.py"
    path.write_text(MODEL.replace("2 * x * ct", "3 * x * ct"))
    marked = {"jax": [Mark("square", 4, "jax", "custom_gradient")]}
    events: list[Event] = []
    check_file(replace(TASK, path=str(path), root=str(project), marked=marked), events.append)
    assert any(isinstance(event, FileFinding) for event in events)
    (checked,) = (event for event in events if isinstance(event, Checked))
    assert (checked.gradient.status, checked.gradient.verdict) == (Status.CHECKED, "wrong")

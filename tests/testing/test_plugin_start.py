"""What `pytest --cgcheck` reads before the tests run: a mistake there is a usage error, not a crash after them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gradcheck_cli.testing.pytest_plugin import _Plugin


def started(folder: Path, settings: str = "") -> _Plugin:
    (folder / "pyproject.toml").write_text(f"[tool.cgcheck]\n{settings}\n")
    config = SimpleNamespace(rootpath=folder, getoption=lambda name: None)
    return _Plugin(cast(pytest.Config, config))


def test_it_starts_where_nothing_was_recorded(tmp_path: Path) -> None:
    assert started(tmp_path, "points = 3").settings.points == 3


@pytest.mark.parametrize(
    ("settings", "recordings", "message"),
    [
        ("", "{", "cgcheck-recorded.json: no recording of ours"),
        ("", '{"format": 9, "recorded": {}}', "record again"),
        ('recordings = "calls.json"\nselect = ["gradient-mismach"]', "", "did you mean `gradient-mismatch`"),
        ("points = 0", "", "must be at least 1"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_user_stops_the_run(
    settings: str, recordings: str, message: str, tmp_path: Path
) -> None:
    if recordings:
        (tmp_path / "cgcheck-recorded.json").write_text(recordings)
    with pytest.raises(pytest.UsageError, match=message):
        started(tmp_path, settings)

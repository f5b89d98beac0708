"""Sources are read as the linter does only where one of its rules is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import work
from gradcheck_cli.run.session import Session

NAIVE = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.log(1 + jnp.exp(x))\n"


@pytest.mark.parametrize(
    ("settings", "is_read"),
    [
        (Settings(), True),
        (Settings(select=["CG1"]), False),
        (Settings(select=["CG1", "naive-softplus"]), True),
        (Settings(select=["naive-softplus"], ignore=["CG5"]), False),
    ],
)
def test_what_is_not_shown_is_not_read(
    settings: Settings, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "naive.py"
    path.write_text(NAIVE)
    read: list[int] = []
    monkeypatch.setattr(work, "read_sources", lambda files, cache: read.append(len(files)))
    Session(settings, tmp_path, reads=True).run([Target(path, None)], lambda display, event: None)
    assert read == [1] * is_read

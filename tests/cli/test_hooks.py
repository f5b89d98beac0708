"""The hooks that the repository offers, by the tool that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RIGHT, WRONG

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("pre_commit"),
    pytest.mark.needs("jax"),
    # An unpacked archive is no repository that hooks can be taken from.
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not in a checkout"),
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def hooked(repository: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """What a commit of the files meets, with the project's environment activated."""
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "cgcheck"]
    scripts = Path(sys.executable).parent
    environment = {
        "PATH": os.pathsep.join([str(scripts), os.environ["PATH"]]),
        "PRE_COMMIT_HOME": str(repository / "home"),
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [*command, "--files", *files],
        cwd=repository, capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_a_commit_of_a_wrong_rule_is_stopped(repository: Path) -> None:
    done = hooked(repository, "wrong.py", "right.py")
    assert done.returncode == 1
    assert "error[gradient-mismatch]" in done.stdout, done.stdout + done.stderr


def test_a_commit_of_a_right_one_goes_through(repository: Path) -> None:
    done = hooked(repository, "right.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout

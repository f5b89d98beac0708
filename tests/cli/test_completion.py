"""What a shell is offered behind the cursor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import cgcheck


def offered(line: str) -> list[str]:
    """As bash asks the command by its name: `python -m` has another one."""
    asked = {"_CGCHECK_COMPLETE": "complete_bash", "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    command = [str(Path(sys.executable).with_name("cgcheck"))]
    done = subprocess.run(
        command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("cgcheck expl", ["explain"]),
        ("cgcheck --output", ["--output-format"]),  # of `check`, whose name is left out
        ("cgcheck model.py --base", ["--baseline"]),
        ("cgcheck explain gradient-mis", ["gradient-mismatch"]),
        ("cgcheck explain numer", ["numerics"]),
    ],
)
def test_what_begins_so(line: str, first: list[str]) -> None:
    assert offered(line) == first


def test_the_flags_of_the_group_are_no_paths() -> None:
    assert "--show-completion" in cgcheck("--help").out

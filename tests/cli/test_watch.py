"""`--watch`: again at each change, until an interrupt."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import RIGHT, WRONG

_PATIENCE = 120.0
# What starts in the background may be deaf to interrupts.
_HEEDING = (
    "import signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from gradcheck_cli.cli.app import main\n"
    "main()\n"
)


def wait_for(said: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not said():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextlib.contextmanager
def ending(run: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever fails, it does not run on."""
    try:
        yield
    finally:
        run.kill()


@pytest.mark.slow
def test_a_file_that_changes_is_checked_again(project: Path) -> None:
    (project / "model.py").write_text(WRONG)
    out, err = project.parent / "out.txt", project.parent / "err.txt"
    command = [sys.executable, "-c", _HEEDING, "model.py", "--watch", "-q"]
    env = {**os.environ, "COLUMNS": "80"}
    with (
        out.open("w") as told,
        err.open("w") as aside,
        subprocess.Popen(command, cwd=project, stdout=told, stderr=aside, env=env) as run,
        ending(run),
    ):
        wait_for(lambda: "waiting for changes" in err.read_text())
        assert "triple  WRONG" in out.read_text()
        (project / "model.py").write_text(RIGHT)
        wait_for(lambda: "model.py changed" in err.read_text())
        wait_for(lambda: "0 errors" in out.read_text())
        run.send_signal(signal.SIGINT)
        assert run.wait(_PATIENCE) == 130


def test_what_it_needs_is_told(project: Path) -> None:
    (project / "model.py").write_text(RIGHT)
    script = (
        "import sys\nsys.modules['watchfiles'] = None\n"
        "sys.argv = ['cgcheck', 'model.py', '--watch']\n"
        "from gradcheck_cli.cli.app import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'cgcheck[watch]'" in done.stderr

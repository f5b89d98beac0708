"""The statement that an import has come to."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gradcheck_cli.check.import_line import told_meanwhile
from gradcheck_cli.discover.importing import import_file

SLOW = """from threading import Event

waiting = Event()


def wait():
    for _ in range(3):
        waiting.wait(0.5)


wait()
"""


def test_the_statement_that_takes_long_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    told: list[int] = []
    with told_meanwhile(str(path), told.append):
        import_file(path)
    assert told == [11]


@pytest.mark.parametrize("source", ["x = 1\n", "import nowhere_at_all\n"])
def test_nothing_is_told_of_what_ends_soon_and_the_watch_ends_with_it(
    tmp_path: Path, source: str
) -> None:
    path = tmp_path / "quick.py"
    path.write_text(source)
    told: list[int] = []
    before = threading.active_count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.dont_write_bytecode", True)
        try:
            with told_meanwhile(str(path), told.append):
                import_file(path)
        except ImportError:
            pass
    assert told == []
    assert threading.active_count() == before

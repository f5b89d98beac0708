"""A word that is no file, and nearly a command."""

from __future__ import annotations

from tests.conftest import cgcheck_process


def test_a_command_that_is_misspelled_is_not_taken_for_a_file() -> None:
    run = cgcheck_process("chek", "model.py")
    assert run.code == 2
    assert "no command and no file `chek`; did you mean `check`?" in run.err


def test_another_word_is_a_path() -> None:
    assert "no such file" in cgcheck_process("modell.py").err
    assert "did you mean" not in cgcheck_process("flint:nothing").err  # nearly `lint`, and a module

"""`--help`: groups, whole sentences, nothing that only Python says so."""

from __future__ import annotations

import pytest

from gradcheck_cli.cli.help import _GROUPS
from tests.cli.test_flags import options
from tests.conftest import cgcheck


def test_every_option_of_a_check_stands_in_one_group() -> None:
    grouped = [name for names in _GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(options())


@pytest.mark.parametrize(
    "command", ["check", "lint", "merge", "inputs", "record", "sweep", "explain"]
)
def test_help_is_for_people(command: str) -> None:
    run = cgcheck(command, "--help")
    assert run.code == 0
    told = run.out.partition("\n\n")[2]  # behind the line of usage, where `PATH...` is many
    for foreign in ("<str>", "<list", "(256)", "[required]", "..."):
        assert foreign not in told


def test_commands_are_told_in_whole_sentences() -> None:
    run = cgcheck("--help")
    assert "Check every custom gradient in the given files, folders or modules." in run.out
    assert "..." not in run.out.partition("\n\n")[2]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--backend", "tf"), "tf is not one of jax, tensorflow, torch; did you mean tensorflow?"),
        (("--backend", "pytorch"), "did you mean torch?"),
        (
            ("--fail-on", "erorr"),
            "erorr is not one of error, warning, note, never; did you mean error?",
        ),
        (("--device", "cuda"), "cuda is not one of cpu, gpu\n"),
        (("--points", "many"), "--points': "),
    ],
)
def test_a_value_that_is_none_is_answered_with_what_was_meant(
    flags: tuple[str, str], said: str
) -> None:
    run = cgcheck("check", *flags, "x.py")
    assert run.code == 2
    assert said in run.err and "Input should" not in run.err

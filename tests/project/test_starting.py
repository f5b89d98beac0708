"""What a project begins with."""

from __future__ import annotations

import tomllib

import pytest

from gradcheck_cli.project.settings import Settings, parse
from gradcheck_cli.project.starting import CannotExtendError, with_hook, with_settings

HOOKS = """# ours
repos:
- repo: https://github.com/pre-commit/pre-commit-hooks
  rev: v4.0.0
  hooks:
  - id: check-yaml

ci:
  autofix: true
"""


@pytest.mark.parametrize(
    "text", ["", "[project]\nname = 'a'", "[tool.ruff]\nline-length = 88\n\n\n"]
)
def test_settings_are_added_behind_all_that_is_there(text: str) -> None:
    after = with_settings(text)
    assert after is not None
    assert after.startswith(text.rstrip())
    tables = tomllib.loads(after)
    assert parse(tables["tool"]["cgcheck"], "here") == Settings()
    assert {k: v for k, v in tables.items() if k != "tool"} == {
        k: v for k, v in tomllib.loads(text).items() if k != "tool"
    }


@pytest.mark.parametrize("text", ["[tool.cgcheck]\n", "[tool]\ncgcheck.strict = true\n"])
def test_settings_that_are_there_stay(text: str) -> None:
    assert with_settings(text) is None


@pytest.mark.parametrize("text", ["no toml at all", "tool = 1", "tool = {ruff = {}}\n"])
def test_what_cannot_be_extended_is_left_alone(text: str) -> None:
    with pytest.raises(CannotExtendError):
        with_settings(text)


def test_a_new_configuration_has_the_hook_alone() -> None:
    after = with_hook("")
    assert after is not None
    assert after.startswith("repos:\n  - repo: https://github.com/cgcheck/cgcheck\n    rev: v")
    assert "      - id: cgcheck" in after


def test_the_hook_is_the_last_of_the_list_as_deep_as_the_others() -> None:
    after = with_hook(HOOKS)
    assert after is not None
    head, _, rest = after.partition("- repo: https://github.com/cgcheck/cgcheck\n")
    assert head == HOOKS.partition("\nci:")[0]
    assert rest.startswith("  rev: v")
    assert after.endswith("\n\nci:\n  autofix: true\n")


def test_a_list_within_brackets_that_is_empty_becomes_one() -> None:
    after = with_hook("repos: []\nfail_fast: true\n")
    assert after is not None
    assert after.startswith("repos:\n  - repo: ")
    assert after.endswith("commit` runs in\nfail_fast: true\n")


def test_a_hook_that_is_there_stays_and_what_has_no_list_is_left_alone() -> None:
    assert with_hook("repos:\n- repo: https://github.com/cgcheck/cgcheck\n") is None
    with pytest.raises(CannotExtendError, match="no list"):
        with_hook("fail_fast: true\n")


def test_what_is_there_already_is_left_as_it_is() -> None:
    after = with_hook("repos:  # ours\n- repo: local\n  hooks: []\n---\nother: 1\n")
    assert after is not None
    assert after.startswith("repos:  # ours\n- repo: local\n  hooks: []\n- repo: https://")
    assert after.endswith("\n---\nother: 1\n")

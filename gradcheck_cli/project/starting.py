"""What a project begins with: a table of settings, and a hook that checks before each commit."""

from __future__ import annotations

import re
import tomllib

from gradcheck_cli.contract.version import __version__

PYPROJECT, HOOKS = "pyproject.toml", ".pre-commit-config.yaml"

_TABLE = """[tool.cgcheck]
# Each flag of `cgcheck check` is a key, too; `cgcheck --show-settings .` tells what holds.
fail-on = "error"
"""
_HOOK = f"""- repo: https://github.com/cgcheck/cgcheck
  rev: v{__version__}
  hooks:
    - id: cgcheck  # in the environment that `git commit` runs in
"""
_REPOS = re.compile(r"^repos:[ \t]*(?P<none>\[\s*\])?[ \t]*(?:#.*)?$", re.MULTILINE)
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)
_NEXT_KEY = re.compile(r"^(?:---|\.\.\.|[^\s#-])", re.MULTILINE)


class CannotExtendError(Exception):
    """The file is there and nothing can be added to it, with the reason."""


def with_settings(text: str) -> str | None:
    """A pyproject.toml with our table; None where it has one. Raises `CannotExtendError` where it cannot be read."""
    if "cgcheck" in _tools(text):
        return None
    after = f"{_ended(text)}{_TABLE}"
    _tools(after)
    return after


def with_hook(text: str) -> str | None:
    """A configuration of pre-commit with our hook, the last of its list; None where it has it.

    Raises `CannotExtendError` where there is no list.
    """
    if "cgcheck" in text:
        return None
    if not text.strip():
        return f"repos:\n{_indented(_HOOK, '  ')}"
    repos = _REPOS.search(text)
    if repos is None:
        raise CannotExtendError("it has no list `repos:`")
    head = "repos:" if repos["none"] else repos[0]
    head, rest = f"{text[: repos.start()]}{head}\n", text[repos.end() :].removeprefix("\n")
    after = _NEXT_KEY.search(rest)
    items, others = (rest, "") if after is None else (rest[: after.start()], rest[after.start() :])
    first = _ITEM.search(items)
    hook = _indented(_HOOK, "  " if first is None else first[1])
    kept = f"{items.rstrip()}\n" if items.strip() else ""
    return f"{head}{kept}{hook}{items[len(kept) :]}{others}"


def _tools(text: str) -> dict[str, object]:
    """The tables of tools."""
    try:
        tools = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise CannotExtendError(str(error)) from None
    if not isinstance(tools, dict):
        raise CannotExtendError("its `tool` is no table")
    return tools


def _ended(text: str) -> str:
    """The text with an empty line at its end, if there is any text."""
    return f"{text.rstrip()}\n\n" if text.strip() else ""


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))

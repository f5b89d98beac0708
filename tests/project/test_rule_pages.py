"""Every rule page is whole, and proves itself: its Example fires the rule, its "Use instead" does not.

The linter's pages are proved in `tests/lint/`.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.project.rule_pages import FENCE, folder, rules, sentence
from tests.conftest import Run, check_json, shared_project

EXAMPLE, INSTEAD = "Example", "Use instead"
SECTIONS = [
    "What it does",
    "Why is this bad",
    EXAMPLE,
    INSTEAD,
    "What is proved, what is sampled",
    "Known false positives",
]
SOURCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """The two files of a page, and how they are to be checked."""

    sources: dict[str, str]  # EXAMPLE, INSTEAD → Python
    options: tuple[str, ...]
    settings: tuple[tuple[str, int], ...]


def sections(body: str) -> dict[str, str]:
    _, *parts = re.split(r"^## (.+)\n", body, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@functools.cache
def pages() -> dict[str, Page]:
    return {path.stem: page(path) for path in folder().glob("*/*.md")}


def page(path: Path) -> Page:
    _, front, body = path.read_text(encoding="utf-8").split(FENCE, 2)
    meta = tomllib.loads(front)
    texts = sections(body)
    return Page(
        {name: SOURCE.findall(texts[name])[0] for name in (EXAMPLE, INSTEAD)},
        tuple(meta.get("example-options", ())),
        tuple(meta.get("example-settings", {}).items()),
    )


@pytest.mark.parametrize("name", list(rules()))
def test_a_page_has_all_sections_in_order(name: str) -> None:
    texts = sections(rules()[name].body)
    assert list(texts) == SECTIONS
    assert all(text.strip() for text in texts.values())
    for section in (EXAMPLE, INSTEAD):
        assert len(SOURCE.findall(texts[section])) == 1


def as_parameter(name: str) -> Any:
    """The rule's name, with the framework that its example needs."""
    imported = re.findall(r"^(?:import|from) (\w+)", pages()[name].sources[EXAMPLE], re.MULTILINE)
    return pytest.param(name, marks=pytest.mark.needs(*imported))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [as_parameter(n) for n, rule in rules().items() if not rule.is_static]
)
def test_the_example_fires_and_what_to_use_instead_does_not(name: str) -> None:
    run = checked(name)
    fired = {f["path"] for f in run.findings() if f["rule"] == name}
    assert file(name, EXAMPLE).as_posix() in fired
    mended = [f for f in run.findings() if f["path"] == file(name, INSTEAD).as_posix()]
    assert [f["message"] for f in mended if f["rule"] == name or f["severity"] == "error"] == []


def file(name: str, section: str) -> Path:
    """Relative to the project that `write` makes."""
    return Path(section.split(maxsplit=1)[0].lower(), f"{name.replace('-', '_')}.py")


def checked(name: str) -> Run:
    """One run for all pages that are checked in one way; the files lie where all test processes see them."""
    mine = pages()[name]
    alike = [
        n for n, p in pages().items() if (p.options, p.settings) == (mine.options, mine.settings)
    ]
    place = shared_project(f"pages-of-{min(alike)}", functools.partial(write, names=alike))
    files = [place / file(n, section) for section in (EXAMPLE, INSTEAD) for n in sorted(alike)]
    run = check_json(*files, *mine.options)
    assert run.err == ""
    return run


def write(place: Path, names: Sequence[str]) -> None:
    """The project: its settings, a folder for the examples, one for what to use instead."""
    for section in (EXAMPLE, INSTEAD):
        (place / file("any", section)).parent.mkdir(parents=True)
        for name in names:
            (place / file(name, section)).write_text(pages()[name].sources[section])
    settings = "".join(f"{key} = {value}\n" for key, value in pages()[names[0]].settings)
    (place / "pyproject.toml").write_text(f"[tool.cgcheck]\n{settings}")


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ("the rule raises", "The rule raises."),
        ("a rule raises", "A rule raises."),
        ("exp(x) - 1 cancels", "exp(x) - 1 cancels."),
        ("p * log(p) is NaN", "p * log(p) is NaN."),
    ],
)
def test_a_summary_begins_with_a_capital_unless_it_begins_with_a_formula(
    summary: str, said: str
) -> None:
    assert sentence(summary) == said

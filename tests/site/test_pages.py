"""The site: it builds without a warning, its made pages are true, and so is every command that a page shows."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import typer

from gradcheck_cli.cli.app import app

ROOT = Path(__file__).parents[2]
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
COOKBOOK = runpy.run_path(str(ROOT / "scripts" / "cookbook.py"))
PICTURES = runpy.run_path(str(ROOT / "scripts" / "pictures.py"))
BLOCKS = runpy.run_path(str(ROOT / "scripts" / "blocks.py"))

OF_THE_SHELL = {"cgcheck --install-completion", "cgcheck --help", "cgcheck --version"}


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def has_commands(page: Path) -> bool:
    return any(b.kind == "console" for b in BLOCKS["blocks"](page.read_text(encoding="utf-8")))


def test_the_pages_that_look_things_up_are_made_from_what_they_tell() -> None:
    for name, text in REFERENCE["pages"]().items():
        page = ROOT / "docs" / "look-up" / name
        assert page.read_text(encoding="utf-8") == text, "run `python scripts/reference.py`"


def test_the_cookbook_is_made_from_the_pages_of_the_rules() -> None:
    made, stands = COOKBOOK["page"](), COOKBOOK["PAGE"].read_text(encoding="utf-8")
    assert stands == made, "run `python scripts/cookbook.py`"
    assert sum(line.startswith("| `") for line in made.splitlines()) >= 30


def test_the_pictures_say_what_is_drawn_today() -> None:
    """Lines may move by a bit on another processor; words, axes and stretches do not."""
    for name, made in PICTURES["pictures"]().items():
        stands = (PICTURES["FOLDER"] / name).read_text(encoding="utf-8")
        assert words_of(stands) == words_of(made), f"run `python scripts/pictures.py` ({name})"
        assert stretches_of(stands) == stretches_of(made), (
            f"run `python scripts/pictures.py` ({name})"
        )
        assert len(words_of(made)) > 5


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=shown)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        counts = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert len(set(counts)) == 1, table.splitlines()[counts.index(max(counts))]


def stretches_of(svg: str) -> list[str]:
    """What is shaded, from left to right: stretches with errors, warnings and notes."""
    return re.findall(r'class="fault (\w+)"', svg)


def words_of(svg: str) -> list[str]:
    return [text for text in re.findall(r">([^<>{}]+)<", svg) if text.strip()]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    rule = (tmp_path / "site" / "rules" / "numerics" / "naive-softplus.html").read_text("utf-8")
    assert "CG501" in rule
    front = (tmp_path / "site" / "index.html").read_text("utf-8")
    fetched = re.findall(
        r'(?:src|rel="(?:stylesheet|preconnect)" href)="(?:https?:)?//[^"]*"', front
    )
    assert not fetched, "nothing comes from elsewhere"
    assert 'src="scripts/iframe-worker.js"' in front, "opened from the disk, the search needs it"
    index = (tmp_path / "site" / "search" / "search_index.js").read_text("utf-8")
    assert index.startswith("var __index = ") and "naive-softplus" in index


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](start/cobol.md)\n")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode != 0
    assert "cobol" in built.stderr + built.stdout


def commands_named_in(page: Path) -> set[str]:
    """Every command of ours that a page writes down, also those of which it does not show what they print."""
    text = page.read_text(encoding="utf-8")
    fenced = [b.text for b in BLOCKS["blocks"](text) if b.kind in ("sh", "yaml", "console")]
    lines = re.findall(r"^\s*(?:- |\$ )?(cgcheck [^\n]*)$", "\n".join(fenced), re.M)
    named = re.findall(r"`(cgcheck [^`\n]*)`|^    (cgcheck [^\n]*)$", text, re.M)
    alone = [line.split("  #")[0].split(";")[0].split(" | ")[0] for line in lines]
    return {line.split("  #")[0].strip() for line in (*alone, *("".join(pair) for pair in named))}


@pytest.mark.parametrize("page", BLOCKS["pages"](), ids=shown)
def test_every_command_that_a_page_names_is_one(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    for command in commands_named_in(page) - OF_THE_SHELL:
        _, *arguments = shlex.split(command)
        name = arguments.pop(0) if arguments[0] in group.commands else "check"
        try:
            group.commands[name].make_context(name, arguments)
        except Exception as error:
            # A text may name a command without its arguments.
            if type(error).__name__ != "MissingParameter":
                raise


def test_a_flag_that_is_none_is_noticed() -> None:
    check: Any = typer.main.get_command(app)
    with pytest.raises(Exception, match="No such option"):
        check.commands["check"].make_context("check", ["model.py", "--no-such-flag"])


@pytest.mark.parametrize("page", list(filter(has_commands, BLOCKS["pages"]())), ids=shown)
def test_what_a_page_shows_is_what_is_printed(page: Path) -> None:
    steps = [step for _, found in BLOCKS["run"](page) for step in found]
    untrue = [
        "\n".join(unified_diff(step.stands, step.printed)) for step in steps if not step.is_true
    ]
    assert steps
    assert not untrue, f"run `python scripts/blocks.py --write {shown(page)}`" + "\n".join(untrue)


@pytest.mark.parametrize(
    ("stands", "printed", "agrees"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "…"], ["a", "b", "c"], True),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a …"], ["a and more"], True),
        (["error[x] *"], ["error[x] *"], True),
        (["error[x] *"], ["errorx y"], False),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "…", "d"], ["a", "b"], False),
        ([], ["a"], False),
    ],
)
def test_a_page_may_leave_out_lines_and_nothing_else(
    stands: Any, printed: Any, agrees: bool
) -> None:
    assert BLOCKS["agrees"](tuple(stands), tuple(printed)) is agrees

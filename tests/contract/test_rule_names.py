"""Rule names are spelled in one place, and that place knows the pages."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

import gradcheck_cli
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project import rule_pages
from gradcheck_cli.project.rule_pages import rules

PACKAGE = Path(gradcheck_cli.__file__).parent
# Names of rules that mean something else there: how a worker's process ended.
_ELSE = {"workers/pool.py": {"timed-out", "out-of-memory"}}
_HOMES = {"rule_names.py"}


def test_every_page_has_a_name_and_every_name_a_page() -> None:
    assert list(RuleName) == [name for name, rule in rules().items() if not rule.is_static]


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.name not in _HOMES)


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_no_rule_name_is_spelled_out(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    names = {name.value for name in RuleName} - _ELSE.get(
        file.relative_to(PACKAGE).as_posix(), set()
    )
    assert not texts & names


def test_what_a_page_says_of_its_rule_is_believed() -> None:
    book = rules()
    assert {name for name, rule in book.items() if rule.about_floats} == {
        name for name, rule in book.items() if rule.family == "stability"
    } - {RuleName.NARROWED_COMPUTATION}
    assert all(rule.severity is Severity.ERROR for rule in book.values() if rule.death)
    assert all(rule.family == "gradient" for rule in book.values() if rule.correctable)
    assert all(rule.family == "run" for rule in book.values() if rule.could_not_check)


def test_a_fact_that_no_page_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "gradient" / "gradient-mismatch.md"
    page.parent.mkdir()
    front = 'code = "CG101"\nseverity = "error"\nsummary = ""\nhelp = ""\nverdikt = "wrong"'
    page.write_text(f"+++\n{front}\n+++\n")
    monkeypatch.setattr(rule_pages, "folder", lambda: tmp_path)
    with pytest.raises(msgspec.ValidationError, match="verdikt"):
        rules.__wrapped__()

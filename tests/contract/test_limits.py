"""The table of limits: complete, quoted truly, and the same as its page."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from gradcheck_cli.contract import limits
from gradcheck_cli.contract.limits import Limit

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "scripts" / "limits_page.py"))
TABLE: dict[str, Limit] = PAGE["table"]()


def test_the_page_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "limits.md").read_text(encoding="utf-8") == PAGE["page"](), (
        "run `python scripts/limits_page.py`"
    )


def test_the_page_shows_every_limit() -> None:
    assert PAGE["page"]().count("\n| ") == len(TABLE) + len(PAGE["GROUPS"])


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_limit_is_used(name: str) -> None:
    sources = (ROOT / "gradcheck_cli").rglob("*.py")
    users = [
        p
        for p in sources
        if p.name != "limits.py" and re.search(rf"\b{name}\b", p.read_text("utf-8"))
    ]
    assert users or name == "HALF_THE_DIGITS"


def test_half_of_the_digits_is_the_power_of_eps_that_the_table_says() -> None:
    eps = 2.0**-52
    assert limits.half_of_the_digits(eps) == eps**limits.HALF_THE_DIGITS.value


def test_trials_that_are_quoted_exist() -> None:
    tree = ast.parse((ROOT / "benchmarks" / "limits.py").read_text("utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    quoted = {
        n for row in TABLE.values() for n in re.findall(r"benchmarks/limits.py `(\w+)`", row.trial)
    }
    assert quoted
    assert quoted <= functions


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_limit_says_what_it_is_of_and_why(name: str) -> None:
    row = TABLE[name]
    assert row.unit
    assert len(row.trial) > 20
    assert all(re.fullmatch(r"[A-H]\d?", part) for part in row.section.split(", ") if part)


@pytest.mark.parametrize("room", ["measure", "judge", "adequacy"])
def test_no_file_has_a_limit_or_a_seed_of_its_own(room: str) -> None:
    own = [
        f"{path.name}: {ast.unparse(node)}"
        for path in sorted((ROOT / "gradcheck_cli" / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if small_power_of_two(node) or small_number(node) or seeded(node)
    ]
    assert own == []


def small_power_of_two(node: ast.AST) -> bool:
    """As 2.0**-12."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.right, ast.UnaryOp)
        and isinstance(node.right.operand, ast.Constant)
    )


def small_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is float and 0 < node.value < 0.1


def seeded(node: ast.AST) -> bool:
    """As default_rng(2026)."""
    called = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng")
    return called and any(isinstance(argument, ast.Constant) for argument in node.args)

"""Every fixture gives the findings that stand in its statements, and no other error or warning."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, ROOT, check_json

pytestmark = pytest.mark.slow  # each is a whole run

EXPECTATION = re.compile(r"# (error|warning|note): \[([a-z-]+)\]")
FOLDERS = (
    "right",
    "wrong",
    "torch",
    "tensorflow",
    "keras",
    "intents",
    "iterations",
    "kernels",
    "ladder",
    "discovery",
    "discovery/package",
)
# What a file imports that the package itself does not need.
PACKAGES = ("torch", "tensorflow", "keras", "equinox", "triton")
FILES = [file for folder in FOLDERS for file in sorted((FIXTURES / folder).glob("*.py"))]


def expectations(file: Path) -> set[tuple[int, str, str]]:
    """What stands in comments, each at the line where its statement begins."""
    begins = beginnings(file)
    return {
        (begins.get(number, number), match[1], match[2])
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        for match in EXPECTATION.finditer(line)
    }


def beginnings(file: Path) -> dict[int, int]:
    """For each line, the one where the innermost statement begins that it belongs to."""
    tree = ast.parse(file.read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    by_size = sorted(statements, key=lambda s: (s.end_lineno or s.lineno) - s.lineno, reverse=True)
    return {
        number: statement.lineno
        for statement in by_size
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def as_parameter(file: Path) -> Any:
    """The file, with its path as the test's id and with the packages that it needs."""
    imported = re.findall(r"^(?:import|from) (\w+)", file.read_text(), re.MULTILINE)
    needed = [package for package in PACKAGES if package in imported]
    name = file.relative_to(FIXTURES).as_posix()
    return pytest.param(file, id=name, marks=pytest.mark.needs(*needed))


@pytest.mark.parametrize("file", [as_parameter(file) for file in FILES])
def test_findings_are_those_that_stand_on_the_lines(file: Path) -> None:
    run = check_json(file.relative_to(ROOT))
    assert run.err == ""
    begins = beginnings(file)
    places = [(begins.get(f["line"], f["line"]), f) for f in run.findings()]
    found = {(line, f["severity"], f["rule"]) for line, f in places}
    expected = expectations(file)
    assert expected <= found
    loud = {f for f in found if f[1] != "note"}
    assert loud == {f for f in expected if f[1] != "note"}


@pytest.mark.parametrize("folder", ["right", "wrong"])
def test_every_gradient_of_the_fixtures_is_checked(folder: str) -> None:
    files = [file for file in FILES if file.parent == FIXTURES / folder]
    reports = [check_json(file.relative_to(ROOT)).report for file in files]
    gradients = [gradient for report in reports for gradient in report["gradients"]]
    assert [report["summary"]["unchecked"] for report in reports] == [0] * len(files)
    assert sum(report["summary"]["checked"] for report in reports) == len(gradients) > 5
    evidences = {g["evidence"] for g in gradients} - {None}
    assert evidences <= {"certified", "multiprecision"}


def test_weaker_evidence_is_named_with_its_reason() -> None:
    report = check_json("fixtures/ladder/callbacks.py").report
    assert {g["evidence"] for g in report["gradients"]} == {"finite-difference"}
    assert all("pure_callback" in g["reason"] for g in report["gradients"])
    laws = {law["law"]: law for law in report["gradients"][0]["laws"]}
    assert laws["precision"]["outcome"] == "not-covered"


def test_a_function_is_judged_by_the_rules_it_rests_on() -> None:
    run = check_json("fixtures/wrong/inner.py:energy")
    (finding,) = (f for f in run.findings() if f["severity"] == "error")
    assert finding["rule"] == "gradient-mismatch"
    assert "rules that it calls" in finding["message"]


def test_a_function_by_implicit_differentiation_is_right() -> None:
    run = check_json("fixtures/iterations/solutions.py:cube_root")
    assert run.gradient("cube_root")["verdict"] == "correct"


def test_a_partial_keeps_its_own_arguments() -> None:
    gradient = check_json("fixtures/right/inputs.py:steep_root").gradient("steep_root")
    assert gradient["verdict"] == "correct"
    assert {item["path"] for item in gradient["inputs"]} == {"x"}


def test_seeded_draws_are_certified() -> None:
    gradient = check_json("fixtures/right/draws.py").gradient("noisy")
    assert (gradient["verdict"], gradient["evidence"]) == ("correct", "certified")


def test_a_class_is_no_function(project: Path) -> None:
    (project / "a.py").write_text("class Thing:\n    pass\n")
    run = check_json("a.py:Thing", cwd=project)
    assert run.code == 2
    assert "is a class" in run.findings()[0]["message"]

"""Every fixture gives the findings that stand in its statements, and no other error or warning."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
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
SCHEMA = ROOT / "docs" / "report.schema.json"
LEVELS = ("error", "warning", "note")
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
    is_whole(run.report)
    if file.parent.name in ("right", "wrong"):
        all_is_checked(run.report)


def is_whole(report: dict[str, Any]) -> None:
    """It is what its schema says, findings and gradients point at each other, and its summary counts them."""
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
    for gradient in report["gradients"]:
        for number in gradient["findings"]:  # backends share one
            owner = report["gradients"][report["findings"][number]["gradient_index"]]
            assert (owner["qualname"], owner["line"]) == (gradient["qualname"], gradient["line"])
    summary, levels = report["summary"], [f["severity"] for f in report["findings"]]
    assert [summary[f"{level}s"] for level in LEVELS] == list(map(levels.count, LEVELS))
    assert summary["errors"] == 0 or summary["exit_code"] in (1, 2)  # 2: some could not be checked


def all_is_checked(report: dict[str, Any]) -> None:
    """No gradient is left out, and each that is judged is so over the reals."""
    assert report["summary"]["unchecked"] == 0
    assert report["summary"]["checked"] == len(report["gradients"])
    assert {g["evidence"] for g in report["gradients"]} <= {"certified", "multiprecision", None}


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

"""The JSON report is a contract: version 1, with a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.project.settings import schema as of_settings
from gradcheck_cli.report.json import schema
from tests.conftest import ROOT, WRONG, check_json

PUBLISHED = ROOT / "docs"


def ordered(part: Any) -> Any:
    """A schema whose alternatives stand in one order: msgspec changes theirs, and it means nothing."""
    if isinstance(part, list):
        return [ordered(item) for item in part]
    if not isinstance(part, dict):
        return part
    inner = {key: ordered(value) for key, value in part.items()}
    return inner | ({"anyOf": sorted(inner["anyOf"], key=repr)} if "anyOf" in inner else {})


@pytest.mark.parametrize(("name", "own"), [("report", schema), ("settings", of_settings)])
def test_published_schemas_are_those_in_the_code(name: str, own: Callable[[], Any]) -> None:
    published = json.loads((PUBLISHED / f"{name}.schema.json").read_text())
    assert ordered(published) == ordered(own()), "python scripts/schemas.py"


@pytest.mark.slow
def test_laws_are_all_named_with_their_outcome() -> None:
    gradient = check_json("fixtures/seeds/custom_vjp.py").gradient("log1pexp")
    assert [law["law"] for law in gradient["laws"]] == [
        "structure", "formula", "linearity", "value", "finite", "precision", "casts", "context",
        "dtypes", "worth",
    ]  # fmt: skip
    outcomes = {law["law"]: law["outcome"] for law in gradient["laws"]}
    assert set(outcomes.values()) <= {"pass", "fail"}


@pytest.mark.slow
def test_fingerprints_survive_edits_above(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    first = check_json("a.py", cwd=project).findings()[0]
    (project / "a.py").write_text("# a comment\n" + WRONG)
    second = check_json("a.py", cwd=project).findings()[0]
    assert first["fingerprint"] == second["fingerprint"]
    assert first["line"] + 1 == second["line"]


@pytest.mark.slow
def test_durations_only_when_asked(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    assert "durations" not in check_json("a.py", cwd=project).report
    durations = check_json("a.py", "--durations", cwd=project).report["durations"]
    (name,) = {key.split(": ")[0] for key in durations} - {"a.py"}
    assert {f"{name}: formula", f"{name}: finite", f"{name}: context"} <= set(durations)
    assert sum(s for key, s in durations.items() if key != "a.py") < durations["a.py"]

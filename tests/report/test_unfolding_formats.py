"""A format that is written file by file gives the same text as at one go, wherever the run is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradcheck_cli.contract.report import NotCovered, Report, Severity, Verdict
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import FORMATS, UNFOLDING, begin, render
from gradcheck_cli.report.look import Look
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

KINDS = ("right", "wrong", "noted", "lost", "lone", "partly", "nothing")


def file(kind: str, path: str) -> File:
    """A file of which there is this to say."""
    wrong = replace(finding(line=7), path=path)
    noted = replace(finding("redundant-rule", severity=Severity.NOTE), path=path)
    lost = replace(finding("import-failed", 1, "`cuda` is missing"), path=path, gradient=None)
    lone = replace(finding("naive-softplus", 9), path=path, gradient=None)
    each: dict[str, dict[str, Any]] = {
        "right": {"gradients": [checked(path=path)]},
        "wrong": {"gradients": [checked(path=path), checked(wrong, path=path, verdict=Verdict.WRONG)]},
        "noted": {"gradients": [checked(noted, path=path)]},
        "lost": {"findings": [lost], "not_covered": [NotCovered.whole("f", "its file is lost")]},
        "lone": {"linted": [lone]},
        "partly": {"gradients": [checked(wrong, path=path, verdict=Verdict.WRONG)], "linted": [lone]},
        "nothing": {},
    }  # fmt: skip
    return File(path, **each[kind])


@pytest.mark.parametrize("name", UNFOLDING)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    cut=st.integers(0, 6),
    verbose=st.booleans(),
    quiet=st.booleans(),
)
def test_parts_are_the_whole(
    name: str, kinds: list[str], cut: int, verbose: bool, quiet: bool
) -> None:
    files = [file(kind, f"{letter}.py") for letter, kind in zip("abcdef", kinds, strict=False)]
    whole = assemble(files, Settings())
    look = Look(Path("/nowhere"), verbose=verbose, quiet=quiet, width=80)
    unfolded = begin(name, look, whole.summary.files)
    parts = [[each] for each in files[:cut]] + [files[cut:]]
    told = [unfolded.add(assemble(part, Settings())) for part in parts if part]
    assert "".join(told) + unfolded.end(whole) == render(name, whole, look)


def test_every_format_that_unfolds_is_one() -> None:
    assert set(UNFOLDING) <= set(FORMATS)


def test_lines_of_json_name_each_other_over_all_parts() -> None:
    lines = begin("json-lines", Look(Path("/nowhere")), 2)
    parts: list[Report] = [assemble([file("wrong", f"{name}.py")], Settings()) for name in "ab"]
    items = [json.loads(line) for part in parts for line in lines.add(part).splitlines()]
    gradients = {item["number"]: item for item in items if item["type"] == "gradient"}
    findings = {item["number"]: item for item in items if item["type"] == "finding"}
    assert sorted(gradients) == [0, 1, 2, 3]
    assert {n: each["findings"] for n, each in gradients.items()} == {0: [], 1: [0], 2: [], 3: [1]}
    assert {n: each["gradient_index"] for n, each in findings.items()} == {0: 1, 1: 3}

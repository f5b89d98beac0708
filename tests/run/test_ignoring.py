"""Comments that suppress what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.project.comments import parse
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.ignoring import ignoring
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding, note


def ignored(folder: Path, source: str, *findings: Finding) -> str:
    (folder / "a.py").write_bytes(source.encode())
    report = assemble([File("a.py", gradients=[checked(*findings)])], Settings())
    changes = list(ignoring(report, folder, "known  since\n2024"))
    return changes[0].after if changes else source


def test_all_rules_of_a_gradient_stand_in_one_comment_at_its_definition(tmp_path: Path) -> None:
    two = finding(gradient_line=1, line=2), finding("non-finite-value", gradient_line=1, line=2)
    after = ignored(tmp_path, "def f(x):\n    return x\n", *two, note())
    assert after == (
        "def f(x):  # cgcheck: ignore[gradient-mismatch, non-finite-value] -- known since 2024\n"
        "    return x\n"
    )


def test_what_is_about_no_gradient_is_suppressed_where_it_stands(tmp_path: Path) -> None:
    after = ignored(tmp_path, "a = 1\r\nb = 2\r\n", finding("naive-softplus", line=2, gradient=None))  # fmt: skip
    assert after == "a = 1\r\nb = 2  # cgcheck: ignore[naive-softplus] -- known since 2024\r\n"


def test_a_comment_that_is_there_stays(tmp_path: Path) -> None:
    after = ignored(tmp_path, "def f(x):  # cgcheck: x=f32[b]\n    ...\n", finding(gradient_line=1))
    read = parse(after)
    assert [item.text for item in read.inputs] == ["x=f32[b]"]
    assert [item.rules for item in read.ignores] == [("gradient-mismatch",)]


@pytest.mark.parametrize("source", ['x = """\na\n"""\n', "x = 1 + \\\n    2\n"])
def test_where_no_comment_can_stand_nothing_is_written(tmp_path: Path, source: str) -> None:
    assert ignored(tmp_path, source, finding(line=1, gradient_line=1)) == source

"""Comments that suppress nothing: said of what was looked at, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.report import Gradient, Status, Verdict
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter, without_unused
from gradcheck_cli.run.assemble import assemble, unused_ignores
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import TargetReader

SOURCE = """import jax
@jax.custom_vjp
def one(x): ...  # cgcheck: ignore[gradient-mismatch] -- meant
@jax.custom_vjp
def two(x): ...  # cgcheck: ignore[gradient-mismatch, CG101] -- meant
"""
LINES = {"one": 3, "two": 5}


def looked_at(folder: Path, *names: str, functions: tuple[str, ...] = ()) -> File:
    """The file after a run in which the named gradients turned out right."""
    (folder / "model.py").write_text(SOURCE)
    file = TargetReader(Settings(), folder).read(Target(folder / "model.py", None, functions))
    file.gradients += [Checked(gradient=right(name)) for name in names]
    return file


def right(name: str) -> Gradient:
    return Gradient(
        id=name, name=name, qualname=name, path="model.py", line=LINES[name], framework="jax",
        kind="custom_vjp", backend="jax", device="cpu", dtypes=["float32"], status=Status.CHECKED,
        verdict=Verdict.CORRECT,
    )  # fmt: skip


def test_a_run_of_one_function_says_nothing_of_the_comments_of_others(tmp_path: Path) -> None:
    file = looked_at(tmp_path, "one", functions=("one",))
    report = assemble([file], Settings())
    assert [(f.rule, f.line) for f in report.findings] == [("unused-ignore", 3)]


def test_a_run_of_the_whole_file_says_it_of_each_name(tmp_path: Path) -> None:
    file = looked_at(tmp_path, "one", "two")
    report = assemble([file], Settings())
    assert [f.line for f in report.findings] == [3, 5, 5]
    assert "`ignore[CG101]` suppresses nothing" in report.findings[2].message


@pytest.mark.parametrize("functions", [(), ("one",)])
def test_only_what_is_reported_is_taken_out(tmp_path: Path, functions: tuple[str, ...]) -> None:
    file = looked_at(tmp_path, "one", *(() if functions else ("two",)), functions=functions)
    unused = unused_ignores(file, Filter.of([], []))
    assert without_unused(unused, tmp_path) == len(unused) == (1 if functions else 3)
    lines = (tmp_path / "model.py").read_text().splitlines()
    assert lines[2] == "def one(x): ..."
    assert ("# cgcheck" in lines[4]) is bool(functions)


def test_what_the_settings_hide_is_not_taken_out(tmp_path: Path) -> None:
    file = looked_at(tmp_path, "one", "two")
    assert unused_ignores(file, Filter.of([], ["unused-ignore"])) == []

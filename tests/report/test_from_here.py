"""Paths as they are read in the folder that one is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import cgcheck

WRONG = """import jax


@jax.custom_gradient
def triple(x):
    return 3 * x, lambda ct: 2 * ct
"""


@pytest.mark.parametrize(
    ("folder", "path"),
    [(".", "in here/a.py"), ("in here", "a.py"), ("docs/more", "../../in here/a.py")],
)
def test_what_is_printed_can_be_typed_again_where_one_is(
    project: Path, folder: str, path: str
) -> None:
    there = project / folder
    (project / "in here").mkdir()
    there.mkdir(parents=True, exist_ok=True)
    (project / "in here" / "a.py").write_text(WRONG)
    text = cgcheck(path, cwd=there).out
    assert text.splitlines()[0] == path
    assert f"again cgcheck {path}:triple" in text.replace("'", "")  # quoted for its blank
    assert f"start with {path}:6." in text
    assert "lambda ct: 2 * ct" in text  # the source is found
    concise = cgcheck(path, "--output-format", "concise", cwd=there).out
    assert concise.startswith(f"{path}:6:")


def test_candidates_are_told_of_from_where_one_is(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "a.py").write_text(WRONG)
    told = cgcheck("inputs", "../a.py", cwd=project / "sub").out
    assert told.startswith("../a.py:5 triple")


def test_from_outside_of_the_project_paths_are_whole(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (project / "a.py").write_text(WRONG)
    text = cgcheck(project / "a.py", cwd=tmp_path_factory.mktemp("elsewhere")).out
    assert text.splitlines()[0] == str(project / "a.py")
    assert (
        cgcheck(project / "a.py", cwd=project.parent).out.splitlines()[0] == f"{project.name}/a.py"
    )


def test_machines_read_paths_from_the_root_on(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "a.py").write_text(WRONG)
    report = cgcheck("a.py", "--output-format", "json", cwd=project / "sub").report
    (finding,) = report["findings"]
    assert finding["path"] == "sub/a.py"
    assert finding["reproduce"].startswith("cgcheck sub/a.py:triple")

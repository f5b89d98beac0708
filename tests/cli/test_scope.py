"""What a run is about, shown without running anything."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gradcheck_cli.cli.scope import with_references
from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.project.settings import Settings, parse
from tests.conftest import cgcheck


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.cgcheck]\npoints = 7\nexclude = ["old/"]\n')
    for name in ("model.py", "old/model.py", "pkg/layer.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    return tmp_path


def settings_of(project: Path, *flags: str) -> Settings:
    run = cgcheck(".", "--show-settings", *flags, cwd=project)
    assert run.code == 0, run.err
    return parse(tomllib.loads(run.out)["tool"]["cgcheck"], "what was shown")


def test_settings_are_shown_as_they_would_be_written(project: Path) -> None:
    assert settings_of(project, "--seed", "3").points == 7
    assert settings_of(project, "--seed", "3").seed == 3
    assert settings_of(project, "--points", "9").points == 9


def test_another_file_of_settings_or_none(project: Path) -> None:
    (project / "ci.toml").write_text("points = 11\n")
    (project / "tool.toml").write_text("[tool.cgcheck]\npoints = 12\n")
    assert settings_of(project, "--config", "ci.toml").points == 11
    assert settings_of(project, "--config", "tool.toml").points == 12
    assert settings_of(project, "--isolated") == Settings()


@pytest.mark.parametrize("text", ["points =", "pointz = 3", "tool = 3"])
def test_a_file_of_settings_that_is_none_is_refused(project: Path, text: str) -> None:
    (project / "ci.toml").write_text(text)
    run = cgcheck(".", "--show-settings", "--config", "ci.toml", cwd=project)
    assert (run.code, "ci.toml" in run.err) == (2, True)
    assert "Traceback" not in run.err


def test_a_file_of_settings_that_is_not_there_is_refused(project: Path) -> None:
    run = cgcheck(".", "--show-settings", "--config", "nowhere.toml", cwd=project)
    assert (run.code, "nowhere.toml" in run.err) == (2, True)


def test_files_are_shown_as_reports_name_them(project: Path) -> None:
    run = cgcheck(".", "--show-files", cwd=project)
    assert run.out.splitlines() == ["model.py", "pkg/layer.py"]


def test_the_shards_of_a_run_are_all_of_it(project: Path) -> None:
    every = [cgcheck(".", "--show-files", "--shard", f"{i}/2", cwd=project).out for i in (1, 2)]
    assert every == ["model.py\n", "pkg/layer.py\n"]


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "/2"])
def test_what_is_no_shard_is_refused(project: Path, shard: str) -> None:
    run = cgcheck(".", "--show-files", "--shard", shard, cwd=project)
    assert (run.code, "--shard" in run.err) == (2, True)


def test_reports_of_shards_are_merged(project: Path) -> None:
    for i in (1, 2):
        cgcheck(".", "--shard", f"{i}/2", "--output-format", f"json:{i}.json", cwd=project)
    run = cgcheck("merge", "1.json", "2.json", "--output-format", "text:all.txt", cwd=project)
    assert run.code == 0, run.err
    assert "No custom gradients in 2 files" in (project / "all.txt").read_text()


@pytest.mark.parametrize("text", ["{}", "[", '{"schema_version": 9}'])
def test_what_is_no_report_is_not_merged(project: Path, text: str) -> None:
    (project / "1.json").write_text(text)
    run = cgcheck("merge", "1.json", cwd=project)
    assert (run.code, "1.json" in run.err) == (2, True)
    assert "Traceback" not in run.err


def test_references_of_this_run_stand_beside_those_of_the_settings() -> None:
    before = Settings(references={"f": "plain:f", "g": "plain:g"})
    given = with_references(before, ["g=other:g", "plain:h"], ["ops.py:h", "pkg/"])
    assert given.references == {"f": "plain:f", "g": "other:g", "h": "plain:h"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("plain", "name a function"), ("plain:", "name a function"), ("plain:f", "say of which rule")],
)
def test_a_reference_names_a_function_and_a_rule(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        with_references(Settings(), [text], ["ops.py"])

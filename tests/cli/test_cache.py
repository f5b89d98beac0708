"""`cgcheck cache`: how large it is, and its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RIGHT, cgcheck

COUNTED = """
with open("imports.txt", "a") as told:
    told.write(__name__ + "\\n")
"""


def test_size_and_end(tmp_path: Path) -> None:
    env = {"CGCHECK_CACHE_DIR": str(tmp_path)}
    (tmp_path / "results" / "ab").mkdir(parents=True)
    (tmp_path / "results" / "ab" / "cd.msgpack").write_bytes(bytes(3 * 2**20))
    (tmp_path / "somebody's.txt").write_text("not ours")
    told = cgcheck("cache", "size", env=env)
    assert told.code == 0
    assert str(tmp_path) in told.out
    assert "3.0 MiB  results: what checks found" in told.out
    assert "removed 3.0 MiB" in cgcheck("cache", "clear", env=env).out
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's.txt"]
    assert "removed 0.0 MiB" in cgcheck("cache", "clear", env=env).out


@pytest.mark.slow
def test_only_files_with_rules_are_imported_and_once_for_all_looks_at_them(
    project: Path, tmp_path: Path
) -> None:
    env = {"CGCHECK_CACHE_DIR": str(tmp_path / "kept")}
    (project / "model.py").write_text(RIGHT + COUNTED)
    (project / "beside.py").write_text("import jax\n" + COUNTED)
    first = cgcheck(".", cwd=project, env=env)
    assert first.code == 0
    for look in (["-v"], ["--output-format", "sarif"], ["--diff"]):
        assert cgcheck(".", *look, cwd=project, env=env).code == 0
    assert (project / "imports.txt").read_text().split() == ["model"]


def test_something_else_is_a_mistake() -> None:
    run = cgcheck("cache", "empty")
    assert run.code == 2
    assert "empty is not one of size, clear" in run.err

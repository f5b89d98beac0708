"""From paths to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import TargetError
from gradcheck_cli.project.files import resolve, without_excluded


def found(tmp_path: Path, *arguments: str, exclude: tuple[str, ...] = ()) -> list[str]:
    targets = resolve([str(tmp_path / a) for a in arguments], exclude)
    return [t.path.relative_to(tmp_path).as_posix() for t in targets if t.path]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    for name in ("a.py", "pkg/b.py", "pkg/data.txt", "build/c.py", ".hidden/d.py", "env/pyvenv.cfg", "env/e.py", "pkg/__pycache__/f.py", "pkg/keep_gen.py", "pkg/x_gen.py"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / ".gitignore").write_text("build/\n*_gen.py\n!keep_gen.py\n")
    return tmp_path


def test_ignored_hidden_and_environment_folders_are_skipped(tree: Path) -> None:
    assert found(tree, ".") == ["a.py", "pkg/b.py", "pkg/keep_gen.py"]


def test_a_link_that_leads_to_itself_is_no_file(tree: Path) -> None:
    (tree / "loop.py").symlink_to("loop.py")
    assert found(tree, ".") == ["a.py", "pkg/b.py", "pkg/keep_gen.py"]


def test_gitignore_above_the_folder_counts(tree: Path) -> None:
    assert found(tree, "pkg") == ["pkg/b.py", "pkg/keep_gen.py"]


def test_a_file_that_is_named_is_taken_even_if_ignored(tree: Path) -> None:
    assert found(tree, "build/c.py") == ["build/c.py"]


def test_excluded_patterns(tree: Path) -> None:
    assert found(tree, ".", exclude=("pkg/",)) == ["a.py"]


def test_each_file_once(tree: Path) -> None:
    assert found(tree, "a.py", ".", "a.py").count("a.py") == 1


def test_functions_of_one_file_are_joined(tree: Path) -> None:
    (target,) = resolve([f"{tree}/a.py:f", f"{tree}/a.py:g"])
    assert target.functions == ("f", "g")
    (whole,) = resolve([f"{tree}/a.py:f", f"{tree}/a.py"])
    assert whole.functions == ()


def test_module_and_function() -> None:
    (target,) = resolve(["json.decoder:scanstring"])
    assert (target.module, target.functions) == ("json.decoder", ("scanstring",))


def test_a_name_as_pytest_writes_it(tree: Path) -> None:
    (target,) = resolve([f"{tree}/a.py::Layer::run"])
    assert target.functions == ("Layer.run",)


def test_missing_path_names_the_nearest(tree: Path) -> None:
    with pytest.raises(TargetError, match=r"did you mean .*a\.py"):
        resolve([f"{tree}/aa.py"])


@pytest.mark.parametrize(
    ("name", "said"), [("notes.md", "not a Python file"), ("book.ipynb", "a notebook")]
)
def test_what_is_not_python_is_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("# text")
    with pytest.raises(TargetError, match=said):
        resolve([str(tmp_path / name)])


def test_a_script_needs_no_ending(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("x = 1")
    assert [target.path for target in resolve([str(tmp_path / "train")])] == [tmp_path / "train"]


def test_what_is_excluded_is_left_out_even_if_named_where_that_is_forced(tree: Path) -> None:
    named = [str(tree / name) for name in ("a.py", "pkg/b.py", "pkg")]
    kept = without_excluded([*named, "pkg.module"], ["pkg/*.py"], tree)
    assert kept == [str(tree / "a.py"), str(tree / "pkg"), "pkg.module"]
    assert without_excluded(named, ["pkg/*.py"], tree / "elsewhere") == named

"""From a target to what workers are asked, of the source alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import TargetError
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.framework_marks import Backend
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import TargetReader, needs
from tests.conftest import RIGHT

JAX_AND_KERAS = RIGHT + "\n\nimport keras\n\n\n@keras.ops.custom_gradient\ndef k(x): ...\n"


def looked_at(
    folder: Path, source: str, settings: Settings | None = None, *, explicit: bool = True
) -> File:
    path = folder / "a.py"
    path.write_text(source)
    return TargetReader(settings or Settings(), folder).read(Target(path, None, explicit=explicit))


def test_a_file_with_custom_gradients_is_one_task_with_the_settings(tmp_path: Path) -> None:
    file = looked_at(tmp_path, RIGHT, Settings(points=7, seed=3, dtype=["float64"]))
    (task,) = file.tasks
    assert (task.display, task.points, task.seed, task.dtypes) == ("a.py", 7, 3, ["float64"])
    assert [mark.name for mark in task.marked["jax"]] == ["triple"]
    assert needs(task) == (frozenset({"jax"}), None)
    assert file.findings == []


def test_comments_are_stronger_than_settings_and_stand_by_their_line(tmp_path: Path) -> None:
    source = RIGHT.replace("(x):", "(x):  # cgcheck: x=f32[n] in (0, 1)")
    (task,) = looked_at(tmp_path, source, Settings(inputs={"triple": "x=f32[]"})).tasks
    assert task.inputs == {"triple": "x=f32[]", "5": "x=f32[n] in (0, 1)"}


def test_a_file_without_custom_gradients_is_not_run(tmp_path: Path) -> None:
    named, met = (looked_at(tmp_path, "x = 1\n", explicit=e) for e in (True, False))
    assert (named.tasks, [f.rule for f in named.findings]) == ([], ["no-custom-gradients"])
    assert (met.tasks, met.findings) == ([], [])
    (task,) = looked_at(tmp_path, "x = 1\n", Settings(import_all=True)).tasks
    assert needs(task) == (frozenset({"jax"}), None)


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"f(\n", "syntax-error"), (b"# \xe4\n", "unreadable-file"), (b"x = 1\0\n", "syntax-error")],
)
def test_what_is_no_python_is_a_finding_and_no_task(
    tmp_path: Path, content: bytes, rule: str
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    reader = TargetReader(Settings(), tmp_path)
    file = reader.read(Target(path, None))
    assert (file.tasks, [f.rule for f in file.findings]) == ([], [rule])
    with pytest.raises(TargetError, match=r"a\.py: it "):
        reader.tasks(Target(path, None))


def test_a_comment_that_says_nothing_is_a_finding_on_its_line(tmp_path: Path) -> None:
    file = looked_at(tmp_path, RIGHT.replace("(x):", "(x):  # cgcheck: ignroe[x]"))
    assert [(f.rule, f.line) for f in file.findings] == [("malformed-comment", 5)]
    assert len(file.tasks) == 1


@pytest.mark.parametrize(
    ("pattern", "count"), [("mod*.py", 0), ("a.py", 1), ("*.py", 1), ("b/", 0)]
)
def test_ignores_for_paths_are_those_of_the_settings(
    tmp_path: Path, pattern: str, count: int
) -> None:
    file = looked_at(tmp_path, RIGHT, Settings(per_file_ignores={pattern: ["gradient-mismatch"]}))
    assert [ignore.rules for ignore in file.ignores] == [("gradient-mismatch",)] * count


def test_each_backend_is_a_task_beside_that_of_the_other_frameworks(tmp_path: Path) -> None:
    both = [Backend.JAX, Backend.TORCH]
    file = looked_at(tmp_path, JAX_AND_KERAS, Settings(backend=both))
    assert [task.backend for task in file.tasks] == [None, "jax", "torch"]
    assert [set(task.marked) for task in file.tasks] == [{"jax"}, {"keras"}, {"keras"}]
    assert needs(file.tasks[2]) == (frozenset({"keras", "torch"}), "torch")


def test_a_file_that_chooses_a_backend_is_checked_on_that_alone_unless_others_are_asked_for(
    tmp_path: Path,
) -> None:
    choosing = f'import os\n\nos.environ["KERAS_BACKEND"] = "jax"\n{JAX_AND_KERAS}'
    backends = [task.backend for task in looked_at(tmp_path, choosing).tasks]
    assert backends == [None, "jax"]
    asked = looked_at(tmp_path, choosing, Settings(backend=[Backend.TORCH]))
    assert [task.backend for task in asked.tasks] == [None, "torch"]


def test_a_function_that_is_named_is_asked_for_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def plain(x): ...\n")
    file = TargetReader(Settings(), tmp_path).read(Target(tmp_path / "a.py", None, ("plain",)))
    assert [task.functions for task in file.tasks] == [["plain"]]
    assert not file.whole


def test_an_installed_module_is_read_by_its_worker(tmp_path: Path) -> None:
    file = TargetReader(Settings(), tmp_path).read(Target(None, "jax.nn", ("relu",)))
    (task,) = file.tasks
    assert (task.path, task.module, task.functions) == ("", "jax.nn", ["relu"])
    assert file.display == "jax.nn"

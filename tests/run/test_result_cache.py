"""What checks found before stands for a check while all that it rests on is as it was, and never else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import NotCovered
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import FileFinding, Finished, Reads, Task, Unreached, Users
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import result_cache, state
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.session import Session
from gradcheck_cli.run.tasks import TargetReader
from gradcheck_cli.workers.pool import End, WorkerEnd
from tests.conftest import RIGHT, cgcheck_process

EVENT = Unreached(not_covered=NotCovered(gradient="triple", law=None, what="all", reason="a test"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A project with a rule, a module beside it, a file of data, and one that calls the rule."""
    for name, text in {
        "model.py": RIGHT,
        "beside.py": "SCALE = 3\n",
        "data.txt": "3",
        "test_model.py": "from model import triple\n\ntriple(2.0)\n",
        "pyproject.toml": "[project]\nname = 'sample'\n",
    }.items():
        (tmp_path / "project" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project" / "model.py"


def task_of(model: Path, **settings: Any) -> Task:
    reader = TargetReader(replace(Settings(), **settings), model.parent)
    return reader.read(Target(model, None)).tasks[0]


def ended(model: Path, **said: object) -> WorkerEnd:
    """The end of a worker that read the project."""
    folder = model.parent
    reads = Reads(
        files=[str(folder / name) for name in ("model.py", "beside.py", "data.txt")],
        missing=[str(folder / "more.txt")],
        listed=[str(folder / "data")],
        variables=["SCALE_OF_MODEL"],
        absent=["optional", "package.part"],
        users=[Users(home=str(model), root=str(folder), names=["triple"])],
        folders=[str(folder)],
    )
    last = Finished(versions={"jax": "1"}, reads=reads)
    return WorkerEnd(End.FINISHED, (EVENT, replace(last, **said)), None, 0, 1.0)


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A cache with the answer to one task."""
    ResultCache(tmp_path / "results").put(task_of(model), ended(model))
    return tmp_path / "results"


def is_known(folder: Path, model: Path, **settings: Any) -> bool:
    return ResultCache(folder).get(task_of(model, **settings)) is not None


def test_the_answer_is_what_the_worker_said(folder: Path, model: Path) -> None:
    end = ResultCache(folder).get(task_of(model))
    assert end is not None
    assert (end.end, end.events) == (End.FINISHED, ended(model).events)


def test_the_time_of_a_file_says_nothing_where_its_content_is_the_same(
    folder: Path, model: Path
) -> None:
    text = (model.parent / "beside.py").read_text()
    (model.parent / "beside.py").write_text(text)
    assert is_known(folder, model)


@pytest.mark.parametrize(
    "change",
    [
        lambda place: (place / "model.py").write_text(RIGHT + "\n# longer\n"),
        lambda place: (place / "beside.py").write_text("SCALE = 4\n"),
        lambda place: (place / "data.txt").write_text("4"),
        lambda place: (place / "data.txt").unlink(),
        lambda place: (place / "more.txt").write_text("1"),
        lambda place: (place / "data").mkdir(),
        lambda place: (place / "optional.py").write_text(""),
        lambda place: (place / "package" / "part").mkdir(parents=True),
        lambda place: (place / "test_more.py").write_text("from model import triple\n"),
        lambda place: (place / "test_model.py").write_text(""),
    ],
)
def test_what_it_rests_on_has_changed(
    folder: Path, model: Path, change: Callable[[Path], object]
) -> None:
    assert is_known(folder, model)
    change(model.parent)
    assert not is_known(folder, model)


@pytest.mark.parametrize("name", ["test_other.py", "other.py"])
def test_files_that_do_not_use_the_rule_may_come_and_go(
    folder: Path, model: Path, name: str
) -> None:
    (model.parent / name).write_text("from elsewhere import triple\n")
    assert is_known(folder, model)


def test_other_settings_and_comments_are_another_question(folder: Path, model: Path) -> None:
    assert not is_known(folder, model, points=3)
    model.write_text("# cgcheck: x=f32[3]\n" + RIGHT)
    assert not is_known(folder, model)


def test_another_state_is_another_question(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    assert not is_known(folder, model)
    monkeypatch.delenv("JAX_ENABLE_X64")
    monkeypatch.setenv("SCALE_OF_MODEL", "2")
    assert not is_known(folder, model)
    monkeypatch.delenv("SCALE_OF_MODEL")
    assert is_known(folder, model)
    monkeypatch.setattr(state, "__version__", "0.0.0")
    assert not is_known(folder, model)


def test_another_package_is_another_state(
    folder: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    ResultCache(folder).put(task_of(model), ended(model))
    assert is_known(folder, model)
    (tmp_path / "packages" / "new-1.0.dist-info").mkdir(parents=True)
    assert not is_known(folder, model)


@pytest.mark.parametrize("said", [{"out_of_time": True}, {"reads": None}])
def test_what_is_not_whole_is_not_kept(
    model: Path, tmp_path: Path, said: dict[str, object]
) -> None:
    ResultCache(tmp_path / "results").put(task_of(model), ended(model, **said))
    assert not is_known(tmp_path / "results", model)


def test_a_file_that_could_not_be_imported_is_tried_again(model: Path, tmp_path: Path) -> None:
    failed = find(RuleName.IMPORT_FAILED).finding("model.py", 1, "no module named that")
    for events in ((FileFinding(finding=failed),), ()):
        end = ended(model)
        whole = WorkerEnd(End.FINISHED, (*events, *end.events), None, 0, 1.0)
        ResultCache(tmp_path / "results").put(task_of(model), whole)
        assert is_known(tmp_path / "results", model) is not bool(events)


def test_what_runs_on_a_gpu_is_asked_each_time(model: Path, tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "results")
    task = replace(task_of(model), device="gpu")
    cache.put(task, ended(model))
    assert cache.get(task) is None


def test_a_worker_that_died_is_asked_again(model: Path, tmp_path: Path) -> None:
    end = ended(model)
    dead = WorkerEnd(End.DIED, end.events, None, -9, 1.0)
    ResultCache(tmp_path / "results").put(task_of(model), dead)
    assert not is_known(tmp_path / "results", model)


def test_what_changed_during_the_run_is_not_kept(model: Path, tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "results")
    (model.parent / "beside.py").write_text("SCALE = 5\n")
    cache.put(task_of(model), ended(model))
    assert not is_known(tmp_path / "results", model)


def test_a_broken_answer_is_none(folder: Path, model: Path) -> None:
    (path,) = folder.glob("*/*.msgpack")
    path.write_bytes(b"not an answer")
    assert not is_known(folder, model)


def test_the_oldest_answers_go(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "_MOST_BYTES", 0)
    cache = ResultCache(folder)
    cache.put(task_of(model, points=3), ended(model))
    cache.tidy()
    assert not is_known(folder, model)


@pytest.mark.slow
def test_a_file_is_checked_again_when_what_it_read_has_changed(project: Path) -> None:
    """From a real worker: an import, a file of data, and a module that is not there."""
    (project / "model.py").write_text(
        "from pathlib import Path\n\nimport jax\n\nfrom part import FACTOR\n\n"
        "try:\n    from local import OTHER\nexcept ImportError:\n    OTHER = 0\n\n"
        "MORE = float(Path(__file__).with_name('data.txt').read_text())\n\n\n"
        "@jax.custom_gradient\ndef scaled(x):\n    return 3 * x, lambda ct: (FACTOR + MORE + OTHER) * ct\n"
    )
    (project / "part.py").write_text("FACTOR = 2\n")
    (project / "data.txt").write_text("1")
    env = {"CGCHECK_CACHE_DIR": str(project.parent / "cache")}
    session = Session(Settings(), project, results=project.parent / "results")
    heard: list[str] = []

    def hear(name: str, event: object) -> None:
        if event is not None:  # something that a worker says
            heard.append(name)

    def verdict() -> str:
        heard.clear()
        result = session.run([Target(project / "model.py", None)], hear)
        (gradient,) = result.report.gradients
        return str(gradient.verdict)

    assert (verdict(), bool(heard)) == ("correct", True)
    assert (verdict(), bool(heard)) == ("correct", False)
    (project / "part.py").write_text("FACTOR = 3\n")
    assert (verdict(), bool(heard)) == ("wrong", True)
    (project / "data.txt").write_text("0")
    assert (verdict(), bool(heard)) == ("correct", True)
    (project / "local.py").write_text("OTHER = 1\n")
    assert (verdict(), bool(heard)) == ("wrong", True)
    (project / "local.py").unlink()
    assert (verdict(), bool(heard)) == ("correct", True)

    first = cgcheck_process("model.py", "--output-format", "json", cwd=project, env=env)
    second = cgcheck_process("model.py", "--output-format", "json", cwd=project, env=env)
    assert first.out == second.out

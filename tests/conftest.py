"""Run cgcheck as its users do; what is asked of the fixtures twice is run once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

from tests.warm import SERVERS, run_here

BYTECODE = "PYTHONPYCACHEPREFIX"
# PyTorch's compiler imports Triton wherever it is installed, and Triton's LLVM ends a process that has TensorFlow's, too.
sys.modules.setdefault("triton", None)

# Each run imports cgcheck: where no bytecode is kept, each would compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault(BYTECODE, str(Path(tempfile.gettempdir()) / "cgcheck-bytecode"))

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
# Files in which each point is dear, and the number of points is not what is tested.
BUDGETS = {
    "fixtures/intents/declared.py": ("--points", "48"),
    "fixtures/ladder/callbacks.py": ("--points", "48"),
}
# What is found in a fixture must not hang on how fast the machine is: four times what a user gives.
PATIENCE = ("--max-time", "480")
# Shared by the processes of one test run, and by no other run.
RUNS = Path(tempfile.gettempdir()) / f"cgcheck-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"  # fmt: skip
RUNS.mkdir(exist_ok=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked `needs(package, …)` is skipped where one of the packages is not installed."""
    packages = {name for mark in item.iter_markers("needs") for name in mark.args}
    absent = [name for name in sorted(packages) if PathFinder.find_spec(name) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What this process kept warm ends; what the processes of this run shared goes with it."""
    SERVERS.close()
    if hasattr(session.config, "workerinput"):
        return
    manager = getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None)
    for run in (os.getpid(), getattr(manager, "testrunuid", None)):
        shutil.rmtree(RUNS.with_name(f"cgcheck-{run}"), ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slow tests come first, as many in each process: a long one at the end leaves a core idle."""
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = [item for item in items if item.get_closest_marker("slow")]
    fast = [item for item in items if not item.get_closest_marker("slow")]
    items[:] = [
        item for k in range(count) for each in (slow, fast) for item in share(each, k, count)
    ]


def share(items: Sequence[pytest.Item], number: int, count: int) -> Sequence[pytest.Item]:
    """The part of the items with this number, where all parts are as long."""
    return items[len(items) * number // count : len(items) * (number + 1) // count]


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        return json.loads(self.out)

    def gradient(self, name: str) -> dict[str, Any]:
        return next(g for g in self.report["gradients"] if g["name"] == name)

    def findings(self, name: str | None = None) -> list[dict[str, Any]]:
        report = self.report
        if name is None:
            return report["findings"]
        return [report["findings"][i] for i in self.gradient(name)["findings"]]

    def rules(self) -> list[str]:
        return [f["rule"] for f in self.report["findings"]]


def cgcheck_process(*args: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Run:
    """One run as a user's shell starts it."""
    command = [sys.executable, "-m", "gradcheck_cli", *map(str, args)]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def cgcheck(*args: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Run:
    """One run of the command line here, with workers of a fork server that other runs share.

    Workers with an environment of their own take a server, and a process, of their own.
    """
    if set(env or {}) <= {"CGCHECK_CACHE_DIR"}:
        return Run(*run_here([str(arg) for arg in args], cwd, {"COLUMNS": "80", **(env or {})}))
    return cgcheck_process(*args, cwd=cwd, env=env)


def check_json(*args: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Run:
    """A run's JSON. What is asked of the fixtures twice is run once, for all test processes."""
    command = (*map(str, args), *BUDGETS.get(str(args[0]), ()), "--output-format", "json")
    if cwd != ROOT or env is not None:
        return cgcheck(*command, cwd=cwd, env=env)
    if "--max-time" not in command:
        command = (*command, *PATIENCE)
    name = hashlib.sha256(repr(command).encode()).hexdigest()[:16]
    kept = RUNS / f"{name}.json"
    with open(RUNS / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(asdict(cgcheck(*command))))
    return Run(**json.loads(kept.read_text()))


def shared_project(name: str, write: Callable[[Path], None]) -> Path:
    """A project that is written once and lies where all test processes see it, for `check_json`."""
    place = RUNS / name
    if not place.exists():
        draft = RUNS / f"{name}-{os.getpid()}"
        draft.mkdir()
        (draft / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
        write(draft)
        try:
            draft.rename(place)
        except OSError:  # another process was first
            assert place.exists()
    return place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project of its own, so that paths are shown relative to it."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    return tmp_path


RIGHT = """import jax


@jax.custom_gradient
def triple(x):
    return 3 * x, lambda ct: 3 * ct
"""

WRONG = """import jax


@jax.custom_gradient
def triple(x):
    return 3 * x, lambda ct: 2 * ct
"""

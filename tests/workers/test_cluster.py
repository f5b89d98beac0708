"""A dask cluster, a real one, in processes of this machine: the same report, also when nodes are lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gradcheck_cli.contract.errors import UsageError, UserError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.worker import Event, Task
from gradcheck_cli.project.files import resolve
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.session import Session
from gradcheck_cli.run.sweep import Sweep
from gradcheck_cli.run.tasks import needs
from gradcheck_cli.workers import cluster, cluster_node
from gradcheck_cli.workers.cluster import Cluster
from gradcheck_cli.workers.pool import End, Interrupted, WorkerEnd
from tests.conftest import RIGHT, WRONG

pytestmark = [pytest.mark.slow, pytest.mark.needs("distributed"), pytest.mark.needs("jax")]

KIND = (frozenset({"jax"}), None)
NAMES = ("a.py", "b.py", "c.py", "d.py")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A scheduler with two nodes, which are begun anew when they are lost."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for number, name in enumerate(NAMES):
        (tmp_path / name).write_text(WRONG if number % 2 else RIGHT)
    return tmp_path


def report_of(project: Path, address: str, heard: list[str] | None = None) -> Report:
    settings = Settings(cluster=address, jobs=2)
    session = Session(settings, project)
    listen = [] if heard is None else heard
    targets = resolve([str(project)], [])
    return session.run(targets, lambda display, event: listen.append(display)).report


@pytest.fixture(scope="module")
def on_this_machine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    here = tmp_path_factory.mktemp("here")
    for number, name in enumerate(NAMES):
        (here / name).write_text(WRONG if number % 2 else RIGHT)
    return msgspec.json.encode(report_of(here, ""))


def test_a_cluster_reports_what_this_machine_does(
    project: Path, nodes: Any, on_this_machine: bytes
) -> None:
    heard: list[str] = []
    report = report_of(project, nodes.scheduler_address, heard)
    assert report.summary.checked == len(NAMES)
    assert msgspec.json.encode(report) == on_this_machine
    assert set(heard) == set(NAMES)


def test_so_it_does_where_a_node_is_lost_on_the_way(
    project: Path, nodes: Any, on_this_machine: bytes
) -> None:
    lost: list[int] = []

    def lose_one(display: str, event: Event | None) -> None:
        if lost or event is not None:
            return
        with distributed.Client(nodes.scheduler_address, set_as_default=False) as client:
            busy = [node for node, tasks in client.processing().items() if tasks]
            pids = client.run(os.getpid)
        lost.append(pids[busy[0]])
        os.kill(lost[0], signal.SIGKILL)

    import distributed

    session = Session(Settings(cluster=nodes.scheduler_address), project)
    report = session.run(resolve([str(project)], []), lose_one).report
    assert lost
    assert msgspec.json.encode(report) == on_this_machine


def test_nodes_keep_nothing_of_a_run_that_is_over(project: Path, nodes: Any) -> None:
    import distributed

    report_of(project, nodes.scheduler_address)
    with distributed.Client(nodes.scheduler_address, set_as_default=False) as client:
        assert set(client.run(_machines).values()) == {0}


def test_nodes_end_a_run_whose_command_line_was_killed(project: Path) -> None:
    from distributed import LocalCluster

    reader = Session(Settings(), project).reader
    (task,) = reader.tasks(resolve([str(project / "a.py")], [])[0])
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with LocalCluster(n_workers=1, **settings) as made, made.get_client() as client:
        client.run(_hurry)
        crew = Cluster(made.scheduler_address, 8192)
        crew.run(needs(task), [task], lambda task, event: None)  # and it is not closed
        before = set(client.run(_machines).values())
        for _ in range(100):
            if set(client.run(_machines).values()) == {0}:
                break
            time.sleep(0.2)
        after = set(client.run(_machines).values())
        crew.close()
    assert (before, after) == ({1}, {0})


def _hurry() -> None:
    cluster_node._IDLE = 5.0
    cluster_node._LOOK = 0.2


def _machines() -> int:
    return len(cluster_node._MACHINES)


def test_a_file_that_wrote_down_the_scheduler_names_it(
    project: Path, nodes: Any, tmp_path_factory: pytest.TempPathFactory, on_this_machine: bytes
) -> None:
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    file.write_bytes(
        msgspec.json.encode({"address": nodes.scheduler_address, "type": "Scheduler", "id": "s"})
    )
    assert msgspec.json.encode(report_of(project, str(file))) == on_this_machine


def test_an_interrupt_keeps_what_is_done(project: Path, nodes: Any) -> None:
    reader = Session(Settings(), project).reader
    tasks = [task for target in resolve([str(project)], []) for task in reader.tasks(target)]

    def interrupt(task: Task, news: Event | WorkerEnd) -> None:
        if isinstance(news, WorkerEnd):
            raise KeyboardInterrupt

    crew = Cluster(nodes.scheduler_address, 8192)
    try:
        with pytest.raises(Interrupted) as interrupted:
            crew.run(needs(tasks[0]), tasks, interrupt)
    finally:
        crew.close()
    ends = [end.end for end in interrupted.value.ends]
    assert ends.count(End.FINISHED) == 1
    assert ends.count(End.INTERRUPTED) == len(NAMES) - 1


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("release", "of the cluster has cgcheck"),
        ("digest", "does not see the same"),
    ],
)
def test_a_node_that_is_not_alike_is_refused(
    project: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch, there: str, said: str
) -> None:
    monkeypatch.setattr(cluster, there, lambda *_: "another")
    with pytest.raises(UserError, match=said):
        report_of(project, nodes.scheduler_address)


def test_nobody_answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER", 0.5)
    with pytest.raises(UserError, match=r"the cluster at tcp://127\.0\.0\.1:9"):
        report_of(project, "tcp://127.0.0.1:9")


def test_a_cluster_that_goes_away_is_told(project: Path) -> None:
    from distributed import LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with LocalCluster(n_workers=1, **settings) as made:
        session = Session(Settings(cluster=made.scheduler_address), project)

        def end_all(display: str, event: Event | None) -> None:
            if event is None:
                made.close()

        with pytest.raises(UserError, match="is gone"):
            session.run(resolve([str(project)], []), end_all)


def test_a_scheduler_without_nodes_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "_NODES", 0.5)
    settings = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with LocalCluster(n_workers=0, **settings) as made:
        crew = Cluster(made.scheduler_address, 8192)
        with pytest.raises(UserError, match="the cluster at"):
            crew.expect(KIND)
        crew.close()  # and says nothing more


@pytest.mark.parametrize("address", ["local:", "local:many", "local:0"])
def test_nodes_of_this_machine_are_counted(address: str) -> None:
    with pytest.raises(UsageError, match="as in `local:4`"):
        Cluster(address, 8192).expect(KIND)


@pytest.mark.parametrize("text", ["", "[1]", '{"type": "Scheduler"}', '{"address": "nobody"}'])
def test_a_file_that_no_scheduler_wrote_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="is no scheduler"):
        Cluster(str(file), 8192).expect(KIND)


def test_a_node_that_cannot_work_is_named(
    project: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Session(Settings(), project).reader
    (task,) = reader.tasks(resolve([str(project / "a.py")], [])[0])
    crew = Cluster(nodes.scheduler_address, 8192)
    monkeypatch.setattr(cluster.Path, "cwd", lambda: project / "nowhere")
    try:
        with pytest.raises(UserError, match=r"of the cluster: .*nowhere"):
            crew.run(needs(task), [task], lambda task, event: None)
    finally:
        crew.close()


@pytest.mark.parametrize("address", ["nonsense", "tcp://host", "no/such/scheduler.json"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UsageError, match="is no scheduler"):
        Cluster(address, 8192).expect(KIND)


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'cgcheck\[cluster\]'"):
        Cluster("local:2", 8192).expect(KIND)


def test_a_sweep_is_the_same_map(project: Path, nodes: Any, tmp_path: Path) -> None:
    (project / "two.py").write_text(TWO)
    (target,) = resolve([f"{project / 'two.py'}:product"], [])
    maps = [
        Sweep(_session(project, address), target, 4096, tmp_path / "sweeps" / str(n)).run()
        for n, address in enumerate(("", nodes.scheduler_address))
    ]
    assert maps[0].complete
    assert msgspec.json.encode(maps[0]) == msgspec.json.encode(maps[1])


def _session(project: Path, address: str) -> Session:
    return Session(Settings(cluster=address, jobs=2), project)


TWO = """
import jax


@jax.custom_vjp
def product(x, y):
    return x * y


def forward(x, y):
    return x * y, (x, y)


def backward(saved, cotangent):
    x, y = saved
    return cotangent * y, cotangent * x


product.defvjp(forward, backward)
"""

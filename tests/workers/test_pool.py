"""Every task has one end, whatever its worker does. Workers are functions here, in no process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from gradcheck_cli.contract.worker import Doing, Event, Finished, Phase, Task
from gradcheck_cli.workers import pool, wire
from gradcheck_cli.workers.messages import Exited, Started
from gradcheck_cli.workers.pool import End, Pool, WorkerEnd
from tests.reports import task

DOING = Doing(phase=Phase.RUNNING, gradient="f", line=3)
FINISHED = Finished(versions={"jax": "1"})
NO_PROCESS = 2**22 + 1  # above any number that a process has
# What a worker does with its socket; its exit status, or None while it lives.
Worker = Callable[[socket.socket], int | None]


class Launched:
    """A launcher whose workers do all they do when they are started, and end once they have their task."""

    def __init__(self, *workers: Worker) -> None:
        self.workers = list(workers)
        self.news: list[Started | Exited] = []
        self.ending: list[tuple[int, int, socket.socket]] = []  # job, status, its end of the socket
        self.running = 0
        self.most = 0
        self.alive = ExitStack()  # sockets of workers that hang

    def launch(self, job: int, worker_end: socket.socket) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.news.append(Started(job=job, pid=NO_PROCESS))
        status = self.workers.pop(0)(worker_end)
        if status is None:
            self.alive.enter_context(worker_end)
        else:
            self.ending.append((job, status, worker_end))

    def poll(self) -> list[Started | Exited]:
        for job, status, worker_end in self.ending:
            if worker_end.fileno() >= 0:
                assert wire.receive(worker_end) is not None
                worker_end.close()
            self.running -= 1
            self.news.append(Exited(job=job, status=status))
        news, self.news, self.ending = self.news, [], []
        return news

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self.alive.close()


def sends(*events: Event, status: int | None = 0) -> Worker:
    def work(sock: socket.socket) -> int | None:
        for event in events:
            wire.send(sock, event)
        return status

    return work


def garbage(sock: socket.socket) -> int | None:
    sock.sendall(wire.frame(DOING) + b"\xff" * 8)
    return None


def dies_at_once(sock: socket.socket) -> int | None:
    sock.close()
    return -9


def no_event(sock: socket.socket) -> int | None:
    sock.sendall(wire.frame({"type": "Nonsense"}))
    return None


@pytest.fixture(autouse=True)
def nothing_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_kill", lambda pid: None)


def ended(*workers: Worker, tasks: list[Task] | None = None, jobs: int = 1) -> list[WorkerEnd]:
    launched = Launched(*workers)
    todo = tasks or [task(f"{i}.py") for i in range(len(workers))]
    try:
        return Pool(launched, jobs, memory_limit=1000).run(todo, lambda task, event: None)
    finally:
        launched.close()


def test_a_worker_that_says_so_has_finished() -> None:
    (end,) = ended(sends(DOING, FINISHED))
    assert (end.end, end.events, end.doing, end.status) == (End.FINISHED, (FINISHED,), DOING, 0)


def test_a_worker_that_ends_before_it_says_so_has_died_of_what_it_did() -> None:
    (end,) = ended(sends(DOING, status=-11))
    assert (end.end, end.doing, end.status) == (End.DIED, DOING, -11)


def test_a_worker_that_dies_before_it_reads_its_task_costs_no_other() -> None:
    first, second = ended(dies_at_once, sends(DOING, FINISHED))
    assert (first.end, first.doing, first.status) == (End.DIED, None, -9)
    assert second.end is End.FINISHED


@pytest.mark.parametrize(("worker", "doing"), [(garbage, DOING), (no_event, None)])
def test_what_is_no_event_is_garbage(worker: Worker, doing: Doing | None) -> None:
    (end,) = ended(worker)
    assert end.end is End.GARBLED
    # What came in one piece with the garbage is not trusted.
    assert end.doing in (None, doing)


def test_a_worker_that_hangs_is_out_of_time() -> None:
    began = time.monotonic()
    (end,) = ended(sends(DOING, status=None), tasks=[task(max_time=0.2)])
    assert (end.end, end.doing) == (End.TIMED_OUT, DOING)
    assert 0.2 <= end.seconds <= time.monotonic() - began


def test_a_worker_that_takes_too_much_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_resident", lambda pid: 2**31)
    (end,) = ended(sends(DOING, status=None))
    assert (end.end, end.doing) == (End.OUT_OF_MEMORY, DOING)


def test_ends_come_in_the_order_of_the_tasks_and_a_death_costs_nobody_else() -> None:
    ends = ended(sends(DOING, status=3), sends(FINISHED), garbage, sends(FINISHED), jobs=2)
    assert [e.end for e in ends] == [End.DIED, End.FINISHED, End.GARBLED, End.FINISHED]


def test_no_more_workers_than_jobs_live_at_a_time() -> None:
    launched = Launched(*[sends(FINISHED)] * 6)
    Pool(launched, 2, memory_limit=1000).run([task()] * 6, lambda task, event: None)
    assert launched.most <= 2


def test_progress_hears_each_event_and_each_end() -> None:
    heard: list[tuple[str, Event | End]] = []
    launched = Launched(sends(DOING, FINISHED))

    def hear(task: Task, news: Event | WorkerEnd) -> None:
        heard.append((task.display, news.end if isinstance(news, WorkerEnd) else news))

    Pool(launched, 1, memory_limit=1000).run([task("a.py")], hear)
    assert heard == [("a.py", DOING), ("a.py", FINISHED), ("a.py", End.FINISHED)]


def test_a_second_run_of_a_pool_is_not_misled_by_late_news_of_the_first() -> None:
    launched = Launched(sends(FINISHED), sends(DOING, status=None))
    both = Pool(launched, 1, memory_limit=1000)
    both.run([task()], lambda task, event: None)
    launched.news.append(Exited(job=0, status=-9))
    (end,) = both.run([task(max_time=0.2)], lambda task, event: None)
    launched.close()
    assert (end.end, end.status) == (End.TIMED_OUT, None)


def test_who_is_held_up_lets_no_worker_grow_older() -> None:
    """As where a pager is full: what was sent meanwhile still counts."""
    launched = Launched(sends(FINISHED), sends(FINISHED))

    def hear(task: Task, news: Event | WorkerEnd) -> None:
        if isinstance(news, WorkerEnd):
            time.sleep(0.6)

    ends = Pool(launched, 2, memory_limit=1000).run([task(max_time=0.4), task(max_time=0.4)], hear)
    assert [end.end for end in ends] == [End.FINISHED, End.FINISHED]

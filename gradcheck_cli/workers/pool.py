"""Runs tasks in workers, a few at a time, and survives whatever they do.

Each task ends in exactly one `WorkerEnd`: finished, or dead of something, with
the last thing that it said it was doing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from gradcheck_cli.contract.worker import Doing, Event, Finished, Task, decode_event
from gradcheck_cli.workers import wire
from gradcheck_cli.workers.messages import Exited, Started
from gradcheck_cli.workers.spawn import Launcher

_TICK = 0.1
# After its last word a worker has this long to be gone.
_GRACE = 5.0


class End(Enum):
    """How a worker's life ended."""

    FINISHED = "finished"
    DIED = "died"
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    GARBLED = "garbled"
    INTERRUPTED = "interrupted"  # by the user, perhaps before it began


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    end: End
    events: tuple[Event, ...]
    doing: Doing | None
    status: int | None
    seconds: float
    quiet: float = 0.0  # seconds since it last said what it does


# What comes of a task: its worker's events, and at last how it ended.
Heard = Callable[[Task, Event | WorkerEnd], None]


class Interrupted(KeyboardInterrupt):
    """The user stops the run; `ends` are those of all its tasks, with what workers had sent by then."""

    def __init__(self, ends: Sequence[WorkerEnd]) -> None:
        super().__init__()
        self.ends = ends


@dataclass(slots=True)
class _Job:
    task: Task
    sock: socket.socket
    started: float
    reader: wire.Reader = field(default_factory=wire.Reader)
    events: list[Event] = field(default_factory=list)
    doing: Doing | None = None
    said_at: float = 0.0
    pid: int | None = None
    status: int | None = None
    closed: bool = False
    closed_at: float = 0.0
    exited_at: float = 0.0
    end: End | None = None

    @property
    def finished(self) -> bool:
        return any(isinstance(event, Finished) for event in self.events)


class Pool:
    """A few workers at a time; results come in the order of the tasks."""

    def __init__(self, launcher: Launcher, jobs: int, memory_limit: int) -> None:
        self._launcher = launcher
        self._jobs = max(1, jobs)
        self._memory_limit = memory_limit * 1024 * 1024
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._running: dict[int, _Job] = {}
        self._done: dict[int, WorkerEnd] = {}
        self._clock = 0.0
        self._held_up = 0.0  # seconds in which whoever hears of it did something else
        self._first = 0  # news of an earlier run's jobs are nobody's

    def run(self, tasks: Sequence[Task], heard: Heard) -> list[WorkerEnd]:
        """The end of each task's worker, in order; each is heard as it comes, and so are events before.

        An interrupt becomes an `Interrupted`, with the ends until then.
        """
        self._selector = selectors.DefaultSelector()
        control = self._launcher.fileno()
        if control is not None:
            self._selector.register(control, selectors.EVENT_READ, None)
        first, self._first = self._first, self._first + len(tasks)
        waiting = list(enumerate(tasks, start=first))
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._jobs:
                    self._start(*waiting.pop(0))
                self._turn(heard)
                for index in [i for i, job in self._running.items() if job.end]:
                    self._finish(index, heard)
        except KeyboardInterrupt:
            raise Interrupted([self._cut_off(first + i) for i in range(len(tasks))]) from None
        finally:
            for job in self._running.values():
                _kill(job.pid)
            self._selector.close()
        return [self._done.pop(first + i) for i in range(len(tasks))]

    def _cut_off(self, index: int) -> WorkerEnd:
        """The end of a task's worker, which an interrupt may have cut off, or kept from beginning."""
        job = self._running.get(index)
        if job is None:
            return self._done.pop(index, WorkerEnd(End.INTERRUPTED, (), None, None, 0.0))
        end = End.FINISHED if job.finished else End.INTERRUPTED
        return WorkerEnd(end, tuple(job.events), job.doing, None, self._now() - job.started)

    def _start(self, index: int, task: Task) -> None:
        ours, theirs = socket.socketpair()
        self._launcher.launch(index, theirs)
        ours.setblocking(True)
        with contextlib.suppress(ConnectionError):  # it died before it read: its silence says so
            wire.send(ours, task)
        ours.setblocking(False)
        self._running[index] = _Job(task, ours, self._now())
        self._selector.register(ours, selectors.EVENT_READ, index)

    def _turn(self, heard: Heard) -> None:
        for key, _ in self._selector.select(_TICK):
            if key.data is not None:
                self._read(key.data, heard)
        for news in self._launcher.poll():
            job = self._running.get(news.job)
            if job is None:
                continue
            if isinstance(news, Started):
                job.pid = news.pid
            elif isinstance(news, Exited):
                job.status, job.exited_at = news.status, self._now()
        now = self._now()
        look = now - self._clock > _TICK
        if look:
            self._clock = now
        for job in self._running.values():
            job.end = job.end or self._judge(job, now, look)

    def _judge(self, job: _Job, now: float, look: bool) -> End | None:
        if job.closed:
            if job.status is None and now - job.closed_at < _GRACE:
                return None
            return End.FINISHED if job.finished else End.DIED
        if job.status is not None and not job.finished:
            # Its end of the socket may live on in a child of its own; nothing more will come.
            return End.DIED if now - job.exited_at > _GRACE else None
        limit = job.task.max_time
        if limit is not None and now - job.started > limit:
            return End.TIMED_OUT
        if look and job.pid is not None and _resident(job.pid) > self._memory_limit:
            return End.OUT_OF_MEMORY
        return None

    def _read(self, index: int, heard: Heard) -> None:
        job = self._running[index]
        try:
            data = job.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._selector.unregister(job.sock)
            job.closed, job.closed_at = True, self._now()
            return
        try:
            events = [decode_event(frame) for frame in job.reader.feed(data)]
        except (ValueError, msgspec.MsgspecError):
            job.end = End.GARBLED
            return
        for event in events:
            if isinstance(event, Doing):
                job.doing, job.said_at = event, self._now()
            else:
                job.events.append(event)
            self._tell(heard, job.task, event)

    def _finish(self, index: int, heard: Heard) -> None:
        job = self._running.pop(index)
        if not job.closed:
            self._selector.unregister(job.sock)
        job.sock.close()
        _kill(job.pid)
        assert job.end is not None
        seconds = self._now() - job.started
        quiet = self._now() - (job.said_at or job.started)
        end = WorkerEnd(job.end, tuple(job.events), job.doing, job.status, seconds, quiet)
        self._done[index] = end
        self._tell(heard, job.task, end)

    def _tell(self, heard: Heard, task: Task, news: Event | WorkerEnd) -> None:
        """Hand on what comes; while nobody listens, as where a screen is full, no worker grows older."""
        begun = time.monotonic()
        try:
            heard(task, news)
        finally:
            self._held_up += time.monotonic() - begun

    def _now(self) -> float:
        """Seconds by a clock that stands still while we are held up."""
        return time.monotonic() - self._held_up


def _kill(pid: int | None) -> None:
    """The worker and whatever it started."""
    if pid is None:
        return
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        return


def _resident(pid: int) -> int:
    """Resident bytes of a process, 0 if unknown."""
    try:
        if platform.system() == "Linux":
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        out = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return int(out.stdout.strip() or 0) * 1024
    except (OSError, ValueError, IndexError):
        return 0

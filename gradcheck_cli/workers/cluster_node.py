"""What a node of a cluster does: each task in a worker of its own machine, as the command line has it there."""

from __future__ import annotations

import functools
import hashlib
import math
import platform
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import InternalError, UserError
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.contract.worker import Kind, Task
from gradcheck_cli.project.cache_folder import folder
from gradcheck_cli.workers.machine import Machine
from gradcheck_cli.workers.pool import WorkerEnd

_IDLE = 600.0  # seconds after which a run that does not say so is over, too: its command line was killed
_LOOK = 30.0  # seconds between two looks for such runs


class _Kept(msgspec.Struct):
    """A machine, and since when it has done nothing; infinity while it works."""

    machine: Machine
    since: float = math.inf


# Of each run, and of each thread of this node that works for it: servers are not shared between threads.
_MACHINES: dict[tuple[str, int], _Kept] = {}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A task, with what a node has to know to do it as the command line's own machine would."""

    run: str  # a name for the run, which no other has
    folder: str  # where the command line stands
    frameworks: list[str]
    backend: str | None
    memory_limit: int
    content: str | None  # of the task's file, as a digest; None if it has none
    task: Task

    @property
    def kind(self) -> Kind:
        """The workers that it needs."""
        return frozenset(self.frameworks), self.backend


def release() -> str:
    """What has to be the same on both ends: another one may say something else, or not understand."""
    return f"cgcheck {__version__} on Python {'.'.join(platform.python_version_tuple()[:2])}"


def digest(path: str) -> str | None:
    """The content of a file in short; None where it cannot be read."""
    with suppress(OSError):
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    return None


def do(sender: str, order: bytes) -> bytes:
    """Do one task, and return how its worker ended; both ends speak msgpack, as they do with workers."""
    if sender != release():
        raise UserError(f"{platform.node()} of the cluster has {release()}, not {sender} as here")
    _watch()
    asked = msgspec.msgpack.decode(order, type=Order)
    if asked.task.path and digest(asked.task.path) != asked.content:
        raise UserError(
            f"{platform.node()} of the cluster does not see the same {asked.task.path}: "
            "its nodes need the project at the same place, as a shared file system has it"
        )
    kept = folder() if asked.task.cache else None  # compiled code is this machine's
    task = msgspec.structs.replace(asked.task, cache=kept)
    try:
        return _done(asked, task)
    except (OSError, InternalError):
        _let_go(asked)  # its server may have been killed
    try:
        return _done(asked, task)
    except (OSError, InternalError) as error:
        _let_go(asked)
        raise UserError(f"{platform.node()} of the cluster: {error}") from None


def _done(asked: Order, task: Task) -> bytes:
    kept = _machine(asked)
    kept.since = math.inf
    try:
        (end,) = kept.machine.run(asked.kind, [task], lambda task, event: None)
    finally:
        kept.since = time.monotonic()
    return msgspec.msgpack.encode(end)


def _let_go(asked: Order) -> None:
    """End this thread's machine: the next task begins another."""
    kept = _MACHINES.pop((asked.run, threading.get_ident()), None)
    if kept is not None:
        kept.machine.close()


def ended(answer: bytes) -> WorkerEnd:
    """The end that an answer tells of."""
    return msgspec.msgpack.decode(answer, type=WorkerEnd)


def leave(run: str) -> None:
    """End whatever still works for a run."""
    for name, thread in list(_MACHINES):
        if name == run:
            _MACHINES.pop((name, thread)).machine.close()


def forget_idle() -> None:
    """End what has worked for nobody for long."""
    for key, kept in list(_MACHINES.items()):
        # Another thread may have ended it meanwhile.
        if time.monotonic() - kept.since > _IDLE and _MACHINES.pop(key, None) is not None:
            kept.machine.close()


@functools.cache
def _watch() -> None:
    """From the first task on, look for what has worked for nobody: there may be no other task to do so."""

    def look() -> None:
        while True:
            time.sleep(_LOOK)
            forget_idle()

    threading.Thread(target=look, daemon=True).start()


def _machine(asked: Order) -> _Kept:
    """This thread's for the run."""
    key = asked.run, threading.get_ident()
    if key not in _MACHINES:
        _MACHINES[key] = _Kept(Machine(asked.task.device, 1, asked.memory_limit, asked.folder))
    return _MACHINES[key]

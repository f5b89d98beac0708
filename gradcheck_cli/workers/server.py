"""The warm fork server: imports a set of frameworks once, forks a worker for each file.

It runs no user code, starts no JAX backend and keeps to one thread, because a
fork after a backend has run would hang.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.workers import wire
from gradcheck_cli.workers.messages import Broken, Exited, Launch, Ready, Started


def main(control_fd: int, frameworks: Sequence[str]) -> None:
    control = socket.socket(fileno=control_fd)
    try:
        warm(frameworks)
    except Exception as error:
        wire.send(control, Broken(reason=f"{type(error).__name__}: {error}"))
        return
    wire.send(control, Ready(imports=1))
    serve(control)


def warm(frameworks: Sequence[str]) -> None:
    """Import all that a worker needs, and make sure that forking is still safe.

    Nothing of it is garbage: to look for some takes a tenth of the time.
    """
    gc.disable()
    import gradcheck_cli.check.file  # noqa: F401  (imports the engine)
    from gradcheck_cli.frameworks.load import load
    from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

    for name in frameworks:
        with contextlib.suppress(UserCodeError), calling_user_code():
            load(name)  # the file's own import will say what is wrong with it

    gc.collect()
    gc.freeze()
    gc.enable()
    threads = _thread_count()
    if threads != 1:
        raise RuntimeError(f"{threads} threads are alive after the imports; forking is not safe")


def _thread_count() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def serve(control: socket.socket) -> None:
    """Fork on demand, report exits, end with the CLI."""
    jobs: dict[int, int] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reader = wire.Reader()
    fds: list[int] = []
    while True:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            _reap(control, jobs)
        if control.fileno() in ready:
            data, received, _, _ = socket.recv_fds(control, 65536, 16)
            if not data:
                _kill_all(jobs)
                os._exit(0)  # the interpreter holds nothing worth taking down
            fds.extend(received)
            for frame in reader.feed(data):
                _launch(control, wire.decode(frame, Launch).job, fds, jobs)


def _launch(control: socket.socket, job: int, fds: list[int], jobs: dict[int, int]) -> None:
    fd = fds.pop(0)
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            control.close()
            for other in fds:  # sockets of workers that are still to come
                os.close(other)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            from gradcheck_cli.workers import worker

            worker.main(fd)
            code = 0
        finally:
            os._exit(code)
    os.close(fd)
    jobs[pid] = job
    wire.send(control, Started(job=job, pid=pid))


def _reap(control: socket.socket, jobs: dict[int, int]) -> None:
    while jobs:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        job = jobs.pop(pid, None)
        if job is not None:
            wire.send(control, Exited(job=job, status=os.waitstatus_to_exitcode(status)))


def _kill_all(jobs: dict[int, int]) -> None:
    for pid in jobs:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""The worker: one process, one file, one private socket. User code runs only here."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

from msgspec.structs import replace

from gradcheck_cli.contract.worker import Event, Finished, Task
from gradcheck_cli.workers import wire


def main(fd: int) -> None:
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    data = wire.receive(sock)
    if data is None:
        return
    task = wire.decode(data, Task)
    _close_the_doors(task)

    from gradcheck_cli.project import reads

    def emit(event: Event) -> None:
        if isinstance(event, Finished):
            event = replace(event, reads=reads.end(task.cache, task.path))
        wire.send(sock, event)

    reads.begin()
    check(task, emit)
    sock.shutdown(socket.SHUT_WR)


def check(task: Task, emit: Callable[[Event], None]) -> None:
    """Check the file; a bug of ours is told, with where it happened, before it ends the process."""
    from gradcheck_cli.check.crashed import file_crashed
    from gradcheck_cli.check.file import check_file

    try:
        check_file(task, emit)
    except Exception as error:
        emit(file_crashed(task, error))
        raise


def _close_the_doors(task: Task) -> None:
    """No input, no output, no window: user code may print megabytes, nobody listens."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
    sys.argv = [task.path or task.module or ""]
    os.environ["MPLBACKEND"] = "Agg"
    sys.dont_write_bytecode = True


if __name__ == "__main__":
    main(int(sys.argv[1]))

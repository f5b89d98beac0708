"""Runs of the command line in this process, on fork servers that are started once.

A server and its workers are as users have them: all that is shared is the import of the frameworks,
which a worker cannot change, for it is a fork.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from gradcheck_cli.cli.app import main
from gradcheck_cli.workers.messages import Exited, Started
from gradcheck_cli.workers.spawn import ForkServer, environment

SERVER = Path(__file__).with_name("warm_server.py")
# Read by the command line alone, or by nobody.
NOT_OF_WORKERS = ("CGCHECK_CACHE_DIR", "PYTEST_CURRENT_TEST")
# More jobs than any run has.
A_RUN = 1_000_000


@dataclass
class WarmServer:
    """A fork server that outlives the runs; a run's jobs are numbered from `first`."""

    server: ForkServer
    folder: Path  # a file: where workers start
    first: int = 0

    def launch(self, job: int, worker_end: socket.socket) -> None:
        self.server.launch(self.first + job, worker_end)

    def poll(self) -> list[Started | Exited]:
        """News of this run's jobs; those of earlier runs are over."""
        news = [item for item in self.server.poll() if item.job >= self.first]
        return [
            Started(job=item.job - self.first, pid=item.pid)
            if isinstance(item, Started)
            else Exited(job=item.job - self.first, status=item.status)
            for item in news
        ]

    def fileno(self) -> int | None:
        return self.server.fileno()

    def close(self) -> None:
        """The end of a run, not of the server."""
        self.first += A_RUN


@dataclass
class WarmServers:
    """Fork servers by what they import and by their environment."""

    servers: dict[tuple[object, ...], WarmServer] = field(default_factory=dict)

    def launcher(
        self,
        device: str,
        frameworks: Collection[str],
        backend: str | None = None,
        folder: str | None = None,
    ) -> WarmServer:
        env = {k: v for k, v in environment(device, backend).items() if k not in NOT_OF_WORKERS}
        key = (frozenset(frameworks), frozenset(env.items()))
        if key not in self.servers:
            handle, name = tempfile.mkstemp(prefix="cgcheck-folder-")
            os.close(handle)
            program = (str(SERVER), name)
            self.servers[key] = WarmServer(ForkServer(env, frameworks, program), Path(name))
        warm = self.servers[key]
        warm.folder.write_text(folder or str(Path.cwd()), encoding="utf-8")
        return warm

    def close(self) -> None:
        for warm in self.servers.values():
            warm.server.close()
            warm.folder.unlink(missing_ok=True)
        self.servers.clear()


SERVERS = WarmServers()


def run_here(args: list[str], cwd: Path, env: Mapping[str, str]) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of `cgcheck` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, env),
        patch.object(sys, "argv", ["cgcheck", *args]),
        patch.object(sys, "path", [str(cwd), *sys.path[1:]]),
        patch("gradcheck_cli.workers.machine.launcher", SERVERS.launcher),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()
        try:
            main()
        except SystemExit as end:
            code = end.code
    return (
        (code if isinstance(code, int) else int(code is not None)),
        out.getvalue(),
        err.getvalue(),
    )
